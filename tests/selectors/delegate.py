"""Selectors that watch another one."""

from typing import Any


class Delegate:
    """A selector that leaves to another one what a subclass does not do itself."""

    def __init__(self, selector: Any) -> None:
        self.selector = selector

    def __getattr__(self, name: str) -> Any:
        return getattr(self.selector, name)
