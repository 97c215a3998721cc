"""SIGTERM as an exception, like Ctrl-C: schedulers and systems ask a process to end with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Request to end by SIGTERM; a handler of Ctrl-C handles it too."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block on the first SIGTERM; further ones are ignored.

    A second one must not interrupt the saving that the first one caused. Nothing changes outside
    the main thread, since only that may handle signals, or where SIGTERM is already handled or
    ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated
