"""SIGTERM as an exception, like Ctrl-C, and a repeated Ctrl-C that does not disturb saving."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SAME_PRESS_S = 0.5
"""Time after Ctrl-C in which another one is taken for the same, as of a key that bounces or of a
program that passes the signal on to a process which the terminal has signalled, too."""


class Terminated(KeyboardInterrupt):
    """Request to end by SIGTERM; a handler of Ctrl-C handles it too."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` in the block on the first SIGTERM; further ones are ignored.

    Ctrl-C raises KeyboardInterrupt, but not twice within half a second: the second one must not
    interrupt the saving that the first one caused. Nothing changes outside the main thread, since
    only that may handle signals, or where a signal is already handled or ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handles_term = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    handles_int = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles_term:
        signal.signal(signal.SIGTERM, _terminate)
    if handles_int:
        signal.signal(signal.SIGINT, _interrupts())
    try:
        yield
    finally:
        if handles_int:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if handles_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _interrupts() -> Callable[[int, FrameType | None], None]:
    last_s = -_SAME_PRESS_S

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= _SAME_PRESS_S:
            last_s = now_s
            raise KeyboardInterrupt

    return interrupt
