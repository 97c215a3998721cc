"""Entry point of the `fleetsim` command: the last handler of every error, with exit codes.

They are 2 for wrong input, 1 for every other fault, 130 and 143 after an interrupt and SIGTERM. A
traceback goes to a file that the one line on the terminal names.
"""

import errno
import os
import re
import signal
import sys
import traceback
from typing import Any

import typer

from fleetsim.cli.application import app
from fleetsim.cli.terminal import INTERRUPTED, say
from fleetsim.errors import (
    DivergenceError,
    FaultsError,
    SimulationError,
    TrackerError,
    TrainingError,
)
from fleetsim.host.user_code import crash_file, is_from_user_code, one_line, printing_to_stderr
from fleetsim.quoting import MAX_VALUE, quoted

# Typer keeps click under a private name; its own BadParameter is one of click's usage faults.
UsageFault: type[Exception] = typer.BadParameter.__bases__[0]

_MOST_CHARACTERS = 300
_OUTPUT_FAULTS = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG)


def main() -> None:
    """Run the `fleetsim` command."""
    _order_sets_alike()
    try:
        with printing_to_stderr():
            code = app(standalone_mode=False, prog_name="fleetsim")
        if code == INTERRUPTED:
            # Another Ctrl-C, while the interpreter ends, would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if sys.stdout is not None:
            sys.stdout.flush()
    except UsageFault as fault:
        # Where no verb is given, Typer has printed the help, and the fault says nothing.
        if str(fault):
            say(f"error: {_usage(fault)}")
        sys.exit(2)
    except (FaultsError, TrackerError, TrainingError) as fault:
        for line in str(fault).split("\n"):
            say(f"error: {line}")
        if isinstance(fault, TrainingError):
            say("What was recorded is in the run folder; go on with --resume.")
        sys.exit(2 if isinstance(fault, FaultsError) else 1)
    except MemoryError as fault:
        say(f"error: not enough memory: {fault}; lower fleet.size, the model or the data set")
        sys.exit(2)
    except DivergenceError as fault:
        say(f"error: {fault}; what was recorded is in the run folder")
        sys.exit(1)
    except SimulationError as fault:
        say(
            f"simulation error: {fault}; this is a bug of fleetsim, {_report_with(fault)}."
            " What was recorded is in the run folder."
        )
        sys.exit(1)
    except (Exception, SystemExit) as fault:  # the last handler: a bug is told in one line, too
        if is_from_user_code(fault):
            say(f"error: code of your own fails: {one_line(fault)}")
            sys.exit(2)
        if isinstance(fault, SystemExit):
            raise
        if _is_of_output(fault):
            say(f"error: the output cannot be written: {fault}; make room, or send it elsewhere")
        else:
            message = " ".join(f"{type(fault).__name__}: {fault}".split())[:_MOST_CHARACTERS]
            say(f"error: unexpected {message}; this is a bug of fleetsim, {_report_with(fault)}")
        sys.exit(1)
    sys.exit(code)


def _order_sets_alike() -> None:
    """Start a command that runs code of the user's own again, with a fixed seed of Python's hashes.

    Python orders sets of text by a seed that it draws at its start unless `PYTHONHASHSEED` states
    it. A plug-in that numbers the texts of a set would give other data in every process.
    """
    words = sys.argv[1:]
    runs_user_code = "flower" in words[:1] or any(word.startswith("--plugin") for word in words)
    runs_user_code |= words[:2] == ["plugin", "check"]
    # Otherwise another program calls this function.
    is_whole_process = sys.orig_argv[len(sys.orig_argv) - len(words) :] == words
    if runs_user_code and is_whole_process and "PYTHONHASHSEED" not in os.environ:
        again = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})


def _report_with(fault: Exception) -> str:
    """Write the traceback to a file, or to the terminal if that fails, and say where it is."""
    try:
        return f"please report it with {crash_file(fault)}"
    except OSError as cause:
        traceback.print_exception(fault)
        return f"please report it with the lines above (no file: {cause.strerror})"


def _is_of_output(fault: Exception) -> bool:
    """Return whether stdout is full or closed; its remaining output is then dropped."""
    if not isinstance(fault, OSError) or fault.errno not in _OUTPUT_FAULTS or fault.filename:
        return False
    # Otherwise the interpreter tries again at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _usage(fault: Any) -> str:
    """Return a usage fault on one line: the command, what is wrong, where to look."""
    command = fault.ctx.command_path if fault.ctx else "fleetsim"
    message = " ".join(fault.format_message().replace("Value error, ", "").split()).rstrip(".")
    message = re.sub(rf"'([^']{{{MAX_VALUE},}})'", lambda match: quoted(match[1]), message)
    return f"{command}: {message}; see `{command} --help`"
