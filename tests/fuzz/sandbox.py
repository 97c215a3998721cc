"""Child process that runs fleetsim commands in sequence, each under limits.

The child imports fleetsim once. For each command it changes into the folder of the case, points
stdout and stderr at files, resets the kernel's mark of its peak memory, and reports the exit code,
the processor time and the peak. The parent kills a child that does not answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

_COMMANDS_PER_CHILD: Final = 250
"""Number of commands per child, which bounds the memory that earlier commands left behind."""
_ADDRESS_SPACE_BYTE: Final = 12 << 30
"""Limit of the child's address space, so that a case cannot take the machine's memory."""
_ALONE_S: Final = 120.0
"""Wall time after which a command in a process of its own is ended."""

_READY: Final = b"ready\n"
"""First line of a child, when everything is imported."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a command."""

    exit_code: int | None
    """Exit code; None: the child died, or was killed because it did not answer in time."""
    stdout: str
    stderr: str
    processor_s: float
    """Processor time of the child; NaN if it was killed."""
    grown_byte: int
    """Peak of the resident memory during the command, less that before."""


class Sandbox:
    """Context manager that runs commands in a child process and ends it."""

    def __init__(self, answer_s: float = 300.0) -> None:
        """Set the wall time after which a child that has not answered is killed."""
        self._answer_s = answer_s
        self._child: subprocess.Popen[bytes] | None = None
        self._num_commands = 0

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, words: list[str], folder: Path, *, is_alone: bool = False) -> Ending:
        """Run `fleetsim WORDS` in a folder, beside which its output is kept.

        With `is_alone` it has a process of its own, which code of the user's may end.
        """
        if self._child is None or self._num_commands >= _COMMANDS_PER_CHILD:
            self._end()
            self._child = _begin()
            self._num_commands = 0
        self._num_commands += 1
        logs = [folder.with_name(f"{folder.name}.{name}") for name in ("stdout", "stderr")]
        asked = {
            "words": words,
            "folder": str(folder),
            "logs": [str(log) for log in logs],
            "is_alone": is_alone,
        }
        told = _ask(self._child, asked, self._answer_s)
        out, err = (log.read_text("utf-8", "replace") if log.exists() else "" for log in logs)
        for log in logs:
            log.unlink(missing_ok=True)
        if told is None:
            self._end()
            return Ending(None, out, err, float("nan"), 0)
        return Ending(told["exit_code"], out, err, told["processor_s"], told["grown_byte"])

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def _begin() -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "FLEETSIM_DATA": "",
        "XDG_CACHE_HOME": "/nonexistent",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "PYTHONWARNINGS": "default",
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.sandbox"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    # On a busy machine the imports take longer than any command.
    assert child.stdout is not None
    assert child.stdout.readline() == _READY, "the sandbox does not begin"
    return child


def _ask(
    child: subprocess.Popen[bytes], asked: dict[str, Any], answer_s: float
) -> dict[str, Any] | None:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(asked).encode() + b"\n")
        child.stdin.flush()
    except BrokenPipeError:
        return None
    until_s = time.monotonic() + answer_s
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([child.stdout], [], [], max(until_s - time.monotonic(), 0.0))
        piece = os.read(child.stdout.fileno(), 65536) if ready else b""
        if not piece:
            return None
        line += piece
    told = json.loads(line)
    assert isinstance(told, dict)
    return told


def _resident_byte(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} in /proc/self/status")


def _processor_s() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _perform(words: list[str]) -> int:
    from fleetsim.cli import run_study  # noqa: PLC0415
    from fleetsim.report.pages import run_page  # noqa: PLC0415
    from fleetsim.studies.backends import RemoteTasks  # noqa: PLC0415
    from fleetsim.studies.page import study_page  # noqa: PLC0415
    from tests.studies.small_studies import AtOnce  # noqa: PLC0415

    sys.argv = ["fleetsim", *words]
    with contextlib.ExitStack() as quick:
        if words[0] == "run":
            # Figures take seconds; what they are drawn from is fuzzed by `report` and `compare`.
            quick.enter_context(
                patch.object(run_page, "write_report", lambda done, **_: done.folder)
            )
        if words[:2] == ["study", "run"]:
            # A process of its own takes seconds to begin, and `study report` draws the page.
            for owner, name, quicker in (
                (run_study, "_backend", lambda jobs, dask: RemoteTasks(AtOnce())),
                (study_page, "write_page", lambda tables, header, folder, **_: folder),
            ):
                quick.enter_context(patch.object(owner, name, quicker))
        return _ending()


def _ending() -> int:
    """Run the command in `sys.argv`, and return its exit code; 70 for a traceback."""
    from fleetsim import cli  # noqa: PLC0415

    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def _measured(words: list[str]) -> dict[str, Any]:
    """Carry out a command in this process."""
    Path("/proc/self/clear_refs").write_text("5")
    before_byte, before_s = _resident_byte("VmRSS"), _processor_s()
    exit_code = _perform(words)
    sys.stdout.flush()
    sys.stderr.flush()
    return {
        "exit_code": exit_code,
        "processor_s": _processor_s() - before_s,
        "grown_byte": max(_resident_byte("VmHWM") - before_byte, 0),
    }


def _forked(words: list[str]) -> dict[str, Any]:
    """Carry out a command in a process of its own; all that it began end with it."""
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        os.write(writes, str(_resident_byte("VmRSS")).encode())
        os.close(writes)
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exit_code = _perform(words)
        with contextlib.suppress(AttributeError, ValueError):  # may be closed
            sys.stdout.flush()
        os._exit(exit_code)
    before_byte = int(os.read(reads, 64))
    os.close(reads)
    os.close(writes)
    until_s, status = time.monotonic() + _ALONE_S, -1
    used = None
    while used is None:
        done, status, found = os.wait4(process, os.WNOHANG)
        if done:
            used = found
        elif time.monotonic() > until_s:
            os.killpg(process, signal.SIGKILL)
            _, _, used = os.wait4(process, 0)
            status = -1
        else:
            time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return {
        "exit_code": None if status == -1 else os.waitstatus_to_exitcode(status),
        "processor_s": used.ru_utime + used.ru_stime,
        "grown_byte": max(used.ru_maxrss * 1024 - before_byte, 0),
    }


def _serve() -> None:
    """Run the commands on stdin, one JSON object a line, and answer in the same form."""
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    orders = os.fdopen(os.dup(0), "rb")
    os.dup2(nothing, 0)
    # Everything heavy is imported now, so that no case pays for it.
    from sklearn import datasets  # noqa: F401, PLC0415

    from fleetsim import scenario, simulate  # noqa: F401, PLC0415
    from fleetsim.report.pages import comparison, run_page  # noqa: F401, PLC0415
    from fleetsim.studies import result  # noqa: F401, PLC0415
    from fleetsim.studies.page import study_page  # noqa: F401, PLC0415

    answers.write(_READY)
    answers.flush()
    for line in orders:
        asked = json.loads(line)
        os.chdir(asked["folder"])
        for descriptor, log in enumerate(asked["logs"], start=1):
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, descriptor)
            os.close(file)
        told = (_forked if asked["is_alone"] else _measured)(asked["words"])
        os.chdir("/")
        answers.write(json.dumps(told).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
