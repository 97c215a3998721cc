"""Consoles, results as text and JSON, messages on stderr, and exit codes of an interrupt."""

import contextlib
import json
import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import typer

from fleetsim.host.plain_console import PlainConsole
from fleetsim.host.termination import Terminated
from fleetsim.quoting import one_line, printable

INTERRUPTED = 130
TERMINATED = 143

_PIPE_WIDTH = 240

console = PlainConsole(emoji=False)
errors = PlainConsole(stderr=True, emoji=False)


def wide() -> PlainConsole:
    """Return the console for tables: a pipe has no width to fit into."""
    return console if console.is_terminal else PlainConsole(width=_PIPE_WIDTH)


def output(text: object, *, ends_line: bool = True) -> None:
    """Write text to stdout as it is, without control characters."""
    typer.echo(printable(str(text)), nl=ends_line)


def output_json(data: object) -> None:
    """Write data to stdout as JSON; a number that is not finite becomes null."""
    output(json.dumps(_plain(data), indent=2, allow_nan=False))


def _plain(data: Any) -> Any:
    match data:
        case Mapping():
            return {str(key): _plain(value) for key, value in data.items()}
        case list() | tuple():
            return [_plain(value) for value in data]
        case float():
            return float(data) if math.isfinite(data) else None
        case PurePath():
            return str(data)
        case _:  # NumPy's numbers
            return _plain(data.item()) if hasattr(data, "item") else data


def tell(*lines: str) -> None:
    """Write lines of results, complete before the first is written, to stdout without markup."""
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def say(line: str) -> None:
    """Write one line for people to stderr."""
    # A full or closed stderr cannot be reported; the exit code still says what happened.
    with contextlib.suppress(OSError):
        errors.print(one_line(line), highlight=False, soft_wrap=True, markup=False)


def note(line: str, *, quiet: bool = False) -> None:
    """Write a line that is not an error; a quiet command writes no notes, but warnings."""
    if line.startswith("warning: "):
        say(line)
    elif not quiet:
        say(f"note: {line}")


def display(*, as_json: bool, quiet: bool) -> PlainConsole | None:
    """Return the console for progress: stderr where stdout is JSON, none for a quiet command."""
    return None if quiet else errors if as_json else console


def command_line() -> str:
    """Return the command that was given, as a shell reads it."""
    return shlex.join(["fleetsim", *sys.argv[1:]])


def ended(interrupt: KeyboardInterrupt, message: str) -> typer.Exit:
    """Say that a verb was interrupted, and return the exit to raise."""
    is_asked = isinstance(interrupt, Terminated)
    say(f"{'ended by SIGTERM' if is_asked else 'interrupted'}{message}")
    return typer.Exit(TERMINATED if is_asked else INTERRUPTED)
