"""Faults of a network of the user's own, each one line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager


class ModelFaultError(ValueError):
    """A network of the user's own that cannot be simulated; the message is one line."""


@contextmanager
def from_code_of(what: str) -> Iterator[None]:
    """Tell any fault of the user's code in the block as one line, with its place.

    Args:
        what: subject of the message, such as `its forward pass`.

    Raises:
        ModelFaultError: the block raised.
    """
    try:
        yield
    except ModelFaultError:
        raise
    except Exception as fault:
        raise ModelFaultError(f"{what} fails: {told(fault)}") from fault


def told(fault: BaseException) -> str:
    """Return a fault on one line, with the place of the user's code that it came from."""
    text = " ".join(f"{type(fault).__name__}: {fault}".split())
    frames = traceback.extract_tb(fault.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    place = (own or frames)[-1:]
    return text + "".join(f" ({frame.filename}, line {frame.lineno})" for frame in place)


def _is_library(filename: str) -> bool:
    """Return whether a file is of torch or another installed package."""
    return "site-packages" in filename or "dist-packages" in filename
