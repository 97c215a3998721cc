"""A process that carries out runs of a study: its start, its messages, and its end.

It tells the progress of a run, ends the run after the current round when it is asked to, and exits
at once when its parent process has gone.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from fleetsim.contracts import Progress
from fleetsim.progress import fraction_done
from fleetsim.record import atomic_files
from fleetsim.scenario import Scenario
from fleetsim.studies.run_order import RunOrder, carry_out

_SEND_PERIOD_S = 0.5
END = b"end"
"""Message that asks a process to end its run."""


class RunProgress(NamedTuple):
    """Progress of a run under way."""

    key: str
    fraction: float
    """Share of the run that is done, by the stop rule that is nearest."""
    round: int
    now_s: float
    accuracy: float | None


class ProgressSender:
    """Callback of a run that sends its progress, twice a second at most."""

    def __init__(
        self,
        key: str,
        send: Callable[[RunProgress], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key, self._send, self._clock = key, send, clock
        self._sent_s: float | None = None

    def __call__(self, scenario: Scenario, progress: Progress) -> None:
        """Send the progress, unless it was sent just now."""
        now_s = self._clock()
        if self._sent_s is not None and now_s - self._sent_s < _SEND_PERIOD_S:
            return
        self._sent_s = now_s
        self._send(
            RunProgress(
                self._key,
                float(fraction_done(scenario.stop, progress)),
                int(progress.round),
                float(progress.now_s),
                None if progress.accuracy is None else float(progress.accuracy),
            )
        )


_PROCESS: list[tuple[Connection, threading.Event]] = []
"""In a process that makes runs: where its messages go, and what is set when the run shall end after
its current round."""


def begin(messages: Connection, requests: Connection) -> None:
    """Initialise a process that makes runs."""
    # Ctrl-C reaches all processes of a terminal; the first one tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # what it starts ends with it
    # Loads torch, which takes longer on some machines than a run may.
    import fleetsim.simulate  # noqa: F401, PLC0415

    messages.send(os.getpid())
    ends = threading.Event()
    _PROCESS[:] = [(messages, ends)]
    threading.Thread(target=_listen, args=(requests, ends), daemon=True).start()


def _listen(requests: Connection, ends: threading.Event) -> None:
    """Wait for the request to end; exit when the parent process has gone."""
    try:
        while requests.recv_bytes() == END:
            ends.set()
    except (EOFError, OSError):
        # At once: a run survives a kill at any moment.
        kill_group(os.getpid())
        os._exit(1)


def kill_group(process: int) -> None:
    """Kill a process that makes runs, and those that it has started."""
    if hasattr(os, "killpg"):
        os.killpg(process, signal.SIGKILL)
    else:
        os.kill(process, signal.SIGTERM)  # Windows ends it by this


def into_folder(order: RunOrder, folder: Path) -> None:
    """Carry out an order in a process of its own."""
    messages, ends = _PROCESS[0]
    send = ProgressSender(order.key, messages.send)

    def watch(scenario: Scenario, progress: Progress) -> None:
        if ends.is_set():
            raise KeyboardInterrupt
        send(scenario, progress)

    try:
        with _output_in(output_of(folder)) if order.plugins else nullcontext():
            carry_out(order, folder, on_progress=watch)
    except KeyboardInterrupt:
        # The executor takes results alone; the run has saved what it has.
        return


def output_of(folder: Path) -> Path:
    """Return the file with what code of the user's own prints in a run; there is none without."""
    return folder.parent.with_name("study-output") / f"{folder.name}.txt"


@contextmanager
def _output_in(path: Path) -> Iterator[None]:
    """Write what this process prints within the block to a file, which replaces an earlier one."""
    atomic_files.make_folder(path.parent, hint="choose another place with --home")
    streams = (sys.stdout, sys.stderr)
    with atomic_files.one_line_error(path, "cannot be written", "choose another --home"):
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        target = os.open(path, flags, 0o666)
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(target, number)
        yield
    finally:
        for stream in streams:
            if stream is not None:
                stream.flush()
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(target)
        if path.stat().st_size == 0:
            path.unlink()
