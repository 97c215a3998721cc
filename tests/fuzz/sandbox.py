"""Child process that imports fleetsim once and forks a process for each command, under limits.

A process changes into the folder of the case and points stdout and stderr at files; the child
reports its exit code, its processor time and the peak of its memory, and ends one that hangs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

_ADDRESS_SPACE_BYTE: Final = 12 << 30
"""Limit of the address space, so that a case cannot take the machine's memory."""
_MOST_S: Final = 120.0
"""Wall time after which a command is ended."""


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a command."""

    exit_code: int | None
    """Exit code; None: it did not end in time."""
    stdout: str
    stderr: str
    processor_s: float
    grown_byte: int
    """Peak of the resident memory during the command, less that before."""


class Sandbox:
    """Context manager that runs commands by a child process and ends it."""

    def __enter__(self) -> Sandbox:
        environment = {
            **os.environ, "FLEETSIM_DATA": "", "XDG_CACHE_HOME": "/nonexistent",
            "OMP_NUM_THREADS": "1", "COLUMNS": "100", "PYTHONWARNINGS": "default",
        }  # fmt: skip
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.sandbox"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()

    def run(self, words: tuple[str, ...], folder: Path) -> Ending:
        """Run `fleetsim WORDS` in a folder, beside which its output is kept meanwhile."""
        logs = [folder.with_name(f"{folder.name}.{name}") for name in ("stdout", "stderr")]
        for log in logs:
            log.touch()
        asked = {"words": words, "folder": str(folder), "logs": [str(log) for log in logs]}
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        exit_code, processor_s, grown_byte = json.loads(self._child.stdout.readline())
        out, err = (log.read_text("utf-8", "replace") for log in logs)
        for log in logs:
            log.unlink()
        return Ending(exit_code, out, err, processor_s, grown_byte)


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


def _forked(words: list[str], folder: str, logs: list[str]) -> tuple[int | None, float, int]:
    """Exit code, seconds and bytes of a command; all that it began end with it."""
    before_byte = _resident_byte()
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        os.chdir(folder)
        for descriptor, log in enumerate(logs, start=1):
            os.dup2(os.open(log, os.O_WRONLY | os.O_TRUNC), descriptor)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ending = _perform(words)
        with contextlib.suppress(AttributeError, ValueError):  # may be closed
            sys.stdout.flush()
        os._exit(ending)
    until_s, done = time.monotonic() + _MOST_S, 0
    while not done:
        done, status, used = os.wait4(process, os.WNOHANG)
        if not done and time.monotonic() > until_s:
            os.killpg(process, signal.SIGKILL)
            until_s = math.inf
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    exit_code = None if until_s == math.inf else os.waitstatus_to_exitcode(status)
    grown_byte = max(used.ru_maxrss * 1024 - before_byte, 0)
    return exit_code, used.ru_utime + used.ru_stime, grown_byte


def _resident_byte() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def _serve() -> None:
    """Run the commands on stdin, one JSON object a line, and answer by a line each."""
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Everything heavy is imported now, so that no case pays for it.
    from sklearn import datasets  # noqa: F401, PLC0415

    from fleetsim import scenario, simulate  # noqa: F401, PLC0415
    from fleetsim.report.pages import comparison, run_page  # noqa: F401, PLC0415
    from fleetsim.studies import result  # noqa: F401, PLC0415
    from fleetsim.studies.page import study_page  # noqa: F401, PLC0415

    for order in orders:
        print(json.dumps(_forked(**json.loads(order))), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
