"""SIGTERM, by which schedulers and systems ask a process to end, as an exception like Ctrl-C's."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM; whoever handles Ctrl-C handles this."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block on the first SIGTERM; further ones are ignored.

    A second one must not cut short what is saved because of the first. Nothing changes outside of
    the main thread, which alone may handle signals, or where SIGTERM is handled or ignored already.
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
