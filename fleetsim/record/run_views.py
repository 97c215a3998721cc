"""Views of a run for notebooks: figures and a summary, attached by the package that draws them."""

from collections.abc import Callable
from typing import Any

_attached: list[Callable[[], Any]] = []


def attach(load: Callable[[], Any]) -> None:
    """Let views come from this function, which is called at first use: drawing takes imports.

    It returns what has `figure(run, name)` and `html(run)`.
    """
    _attached[:] = [load]


def views() -> Any:
    """Return the attached views."""
    return _attached[0]()
