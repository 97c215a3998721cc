"""Calls of a function, every second one in a forked process."""

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NoReturn, TypeVar

_PATIENCE_S = 20.0
"""Time that the other process may take longer."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_two_processes(call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what a function returns for each item.

    Where it is safe and there is a second core, a forked process computes every second item. If it
    fails or hangs, its items are computed here, which raises its fault.
    """
    theirs = items[1::2]
    is_safe = sys.platform == "linux" and threading.active_count() == 1
    if not theirs or not is_safe or len(os.sched_getaffinity(0)) == 1:
        return list(map(call, items))
    reader, writer = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        # Python counts the threads of libraries, too, which the calls leave alone.
        warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
        process = os.fork()
    if not process:
        _answer(call, theirs, writer)
    writer.close()
    try:
        with reader:
            ours = list(map(call, items[::2]))
            others: list[Result] | None = None
            with suppress(EOFError):
                # A library's thread may have held a lock at the fork, which opens nowhere then.
                others = reader.recv() if reader.poll(_PATIENCE_S) else None
            if others is None:
                others = list(map(call, theirs))
    finally:
        os.kill(process, signal.SIGKILL)  # it has answered, or is not needed any more
        os.waitpid(process, 0)
    return [others[at // 2] if at % 2 else ours[at // 2] for at in range(len(items))]


def _answer(call: Callable[[Item], Result], items: Sequence[Item], end: Connection) -> NoReturn:
    """Send the results and end, without a traceback or the clean-up of the process forked from."""
    try:
        # Ctrl-C is handled by that process, which ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end.send(list(map(call, items)))
    finally:
        os._exit(0)
