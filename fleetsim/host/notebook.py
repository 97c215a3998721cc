"""Notebook in which this process computes, if it does, and an output of a cell that changes.

IPython is not imported unless a notebook has done so.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleetsim.host.termination import Terminated

_PERIOD_S = 0.2
"""Least host time between two changes, which the browser must draw."""


def is_active() -> bool:
    """Return whether a Jupyter kernel runs this process; false for IPython in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class Interrupted(KeyboardInterrupt):
    """Interrupt of a cell that a notebook shows as one line."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@contextmanager
def interruptible(hint: str) -> Iterator[None]:
    """Let a notebook show an interrupt of the block as a line, with its notes and the way out."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, Terminated) or not is_active():
            raise
        notes = "; ".join([*getattr(interrupt, "__notes__", []), hint])
        raise Interrupted(f"interrupted: {notes}") from None


class CellOutput:
    """HTML in the output of the cell that runs, changed in place."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415  # there, in a notebook only

        self._html, self._clock = HTML, clock
        self._handle = display(HTML(""), display_id=True)
        self._shown_s = -_PERIOD_S

    def show(self, html: str, *, is_last: bool = False) -> None:
        """Show other HTML, at most five times a second but for the last."""
        now_s = self._clock()
        if is_last or now_s - self._shown_s >= _PERIOD_S:
            self._shown_s = now_s
            self._handle.update(self._html(html))
