"""Plug-ins that differ from one which keeps its contract in a method or two, as rows of a table."""

import sys
from typing import Any


def variants(base: type, rows: dict[str, tuple[str, dict[str, Any]]]) -> dict[type, str]:
    """Return classes by the words of the line that refuses each.

    Args:
        base: class that keeps the contract.
        rows: by the name of a class, words of its line and what it has in place of the base's own.
    """
    module = sys._getframe(1).f_globals["__name__"]
    return {
        type(name, (base,), own | {"__module__": module}): words
        for name, (words, own) in rows.items()
    }


def fails(fault: Exception) -> Any:
    """Return a method that raises."""

    def method(*_: Any, **__: Any) -> Any:
        raise fault

    return method
