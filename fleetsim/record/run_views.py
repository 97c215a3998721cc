"""Views of a run for notebooks: figures and a summary, attached by the package that draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RunViews(Protocol):
    """Views of a `fleetsim.record.saved_run.Run`."""

    def figure(self, run: Any, name: str) -> Figure:
        """Return a figure by its stem."""

    def html(self, run: Any) -> str:
        """Return a summary as HTML."""


_attached: list[Callable[[], RunViews]] = []


def attach(load: Callable[[], RunViews]) -> None:
    """Let views come from this function, which is called at first use: drawing takes imports."""
    _attached[:] = [load]


def views() -> RunViews:
    """Return the attached views."""
    return _attached[0]()
