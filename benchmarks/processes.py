"""Time, memory and processor time of a command with all the processes that it starts.

Memory is the proportional set size: a page that k processes share counts as 1/k in each, so sums
over processes are exact. Processes are found by a mark in their environment, which children
inherit. The process tree would miss those that leave it, such as Ray's.

Linux only: it reads /proc.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import parse_kib

_MARK = "FLEETSIM_BENCHMARK_MARK"
_PERIOD_S = 0.2
"""Time between samples. A sample takes a few milliseconds of a core."""
_MEMORY_EVERY = 2
"""Samples per sample of memory, which is dearer: the kernel walks all pages for it."""
_PATIENCE_S = 10.0
_KIB_PER_MIB = 1024
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Sample:
    """All processes of a command at one time."""

    at_s: float
    """Seconds of `time.monotonic`."""
    memory_mib: float
    """Proportional set size, summed."""
    cpu_s: float
    """Processor time since the start, summed; for ended processes the last value seen."""


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """Command that ended, with its samples."""

    started_at_s: float
    ended_at_s: float
    returncode: int | None
    """Exit code; None: the command exceeded its time limit."""
    samples: tuple[Sample, ...]


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    timeout_s: float,
) -> FinishedCommand:
    """Run a command in a folder, to its end or for `timeout_s`, and sample its processes."""
    mark = f"{_MARK}={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    sampler = _Sampler(mark.encode())
    started_at_s = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**environment, name: value},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        is_late = False
        try:
            while process.poll() is None and not is_late:
                sampler.sample()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PERIOD_S)
                is_late = process.returncode is None and time.monotonic() - started_at_s > timeout_s
            ended_at_s = time.monotonic()
        finally:
            # They have a session of their own, so an interrupt in the terminal does not reach them.
            if process.poll() is None:
                process.kill()
                process.wait()
            sampler.clear()
    return FinishedCommand(
        started_at_s, ended_at_s, None if is_late else process.returncode, tuple(sampler.samples)
    )


class _Sampler:
    """Sampler of the processes whose environment holds a mark."""

    def __init__(self, mark: bytes) -> None:
        self.samples: list[Sample] = []
        self._mark = mark
        self._own: set[int] = set()
        self._foreign: set[int] = set()
        self._cpu_s: dict[int, float] = {}
        self._memory_mib = 0.0

    def sample(self) -> None:
        """Take a sample."""
        at_s = time.monotonic()
        own = self._find()
        for pid in own:
            self._cpu_s[pid] = max(self._cpu_s.get(pid, 0.0), _cpu_s(pid))
        if len(self.samples) % _MEMORY_EVERY == 0:
            self._memory_mib = sum(_memory_mib(pid) for pid in own)
        self.samples.append(Sample(at_s, self._memory_mib, sum(self._cpu_s.values())))

    def clear(self) -> None:
        """Wait for remaining processes, then terminate them."""
        until_s = time.monotonic() + _PATIENCE_S
        while self._find() and time.monotonic() < until_s:
            time.sleep(_PERIOD_S)
        for pid in self._find():
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(pid, signal.SIGTERM)

    def _find(self) -> list[int]:
        """Return the ids of live processes with the mark."""
        alive = {int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()}
        self._own &= alive
        self._foreign &= alive
        for pid in alive - self._own - self._foreign:
            environment = _read(pid, "environ")
            # A process that was just forked has no readable environment for a moment.
            if environment:
                (self._own if self._mark in environment else self._foreign).add(pid)
        return sorted(self._own)


def _read(pid: int, name: str) -> bytes:
    """Read a file of a process; empty if the process is gone or another user's."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _cpu_s(pid: int) -> float:
    return parse_cpu_s(_read(pid, "stat").decode(errors="replace"), os.sysconf("SC_CLK_TCK"))


def _memory_mib(pid: int) -> float:
    return parse_kib(_read(pid, "smaps_rollup").decode(), "Pss") / _KIB_PER_MIB


def parse_cpu_s(stat: str, ticks_per_s: int) -> float:
    """Return user and system time in the text of /proc/PID/stat; 0 if the process is gone.

    >>> parse_cpu_s("7 (a) b) S " + " ".join(["0"] * 10) + " 150 50 0", 100)
    2.0
    """
    # The name in parentheses may hold anything, parentheses and blanks too.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks_per_s if fields else 0.0
