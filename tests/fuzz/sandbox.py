"""Server process from which every fleetsim command is forked, under limits, and measured.

The server imports fleetsim once. A command runs in the folder of its case, with stdout and stderr
in files beside it. All that it began ends with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

_ADDRESS_SPACE_BYTE: Final = 12 << 30
"""Limit of a command's address space, so that a case cannot take the machine's memory."""
_MOST_WALL_S: Final = 300.0
"""Wall time after which a command is killed."""
_ENVIRONMENT: Final = {
    "FLEETSIM_DATA": "",
    "XDG_CACHE_HOME": "/nonexistent",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "100",
    "PYTHONWARNINGS": "default",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a command."""

    exit_code: int | None
    """Exit code, below zero that of a signal; None: it was killed because it did not end."""
    stdout: str
    stderr: str
    processor_s: float
    grown_byte: int
    """Peak of the resident memory during the command, less that before."""


@contextlib.contextmanager
def sandbox() -> Iterator[Callable[[Sequence[str], Path], Ending]]:
    """Yield a function that runs `fleetsim WORDS` in a folder, beside which its output is kept."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as server:
        with patch.dict(os.environ, _ENVIRONMENT):
            server.submit(_prepare).result()
        yield lambda words, folder: server.submit(_run, words, folder).result()


def _prepare() -> None:
    """Limit this process and those forked from it, and import what is heavy for all of them."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from sklearn import datasets  # noqa: F401, PLC0415

    from fleetsim import scenario, simulate  # noqa: F401, PLC0415
    from fleetsim.cli import run_study  # noqa: F401, PLC0415
    from fleetsim.report.pages import comparison, run_page  # noqa: F401, PLC0415
    from fleetsim.studies.page import study_page  # noqa: F401, PLC0415


def _run(words: Sequence[str], folder: Path) -> Ending:
    """Carry out a command in a process of its own."""
    logs = [folder.with_name(f"{folder.name}.{name}") for name in ("stdout", "stderr")]
    until_s = time.monotonic() + _MOST_WALL_S
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        os.write(writes, Path("/proc/self/statm").read_bytes())
        code = 71  # where even the traceback cannot be written
        try:
            code = _exit_code(words, folder, logs)
        finally:
            os._exit(code)
    _, resident_pages, *_ = os.read(reads, 100).split()
    os.close(reads)
    os.close(writes)
    ended, status, used = os.wait4(process, os.WNOHANG)
    while not ended and time.monotonic() < until_s:
        time.sleep(0.002)
        ended, status, used = os.wait4(process, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if not ended:
        _, status, used = os.wait4(process, 0)
    stdout, stderr = (log.read_text("utf-8", "replace") for log in logs)
    return Ending(
        os.waitstatus_to_exitcode(status) if ended else None,
        stdout,
        stderr,
        used.ru_utime + used.ru_stime,
        max(used.ru_maxrss * 1024 - int(resident_pages) * resource.getpagesize(), 0),
    )


def _exit_code(words: Sequence[str], folder: Path, logs: Sequence[Path]) -> int:
    """Carry out a command in this process; the exit code is 70 for a traceback."""
    from fleetsim import cli  # noqa: PLC0415

    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, path in enumerate((Path(os.devnull), *logs)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(folder)
    sys.argv = ["fleetsim", *words]
    code = 0
    try:
        _leave_out_slow_parts(words)
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 70
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # may be closed
            stream.flush()
    return code


def _leave_out_slow_parts(words: Sequence[str]) -> None:
    """Replace what takes seconds, and is fuzzed by other commands."""
    from fleetsim.cli import run_study  # noqa: PLC0415
    from fleetsim.report.pages import run_page  # noqa: PLC0415
    from fleetsim.studies.backends import RemoteTasks  # noqa: PLC0415
    from fleetsim.studies.page import study_page  # noqa: PLC0415
    from tests.studies.small_studies import AtOnce  # noqa: PLC0415

    if words[0] == "run":
        # `report` and `compare` draw figures from the same tables.
        patch.object(run_page, "write_report", lambda done, **_: done.folder).start()
    if list(words[:2]) == ["study", "run"]:
        # A process of its own takes seconds to begin, and `study report` draws the page.
        patch.object(run_study, "_backend", lambda jobs, dask: RemoteTasks(AtOnce())).start()
        patch.object(study_page, "write_page", lambda tables, header, folder, **_: folder).start()
