"""Calls of the user's own code, whose faults become one line with the place."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from fleetsim.errors import DataError, FleetsimError


@contextmanager
def calling(place: str, what: str) -> Iterator[None]:
    """Turn a fault of the user's code within the block into an error of one line.

    Args:
        place: name of the data in errors.
        what: what is called.

    Raises:
        DataError: the code failed; it names the fault and the line that raised it.
    """
    try:
        yield
    except FleetsimError:
        raise
    except Exception as fault:
        raise DataError(f"{place}: {what} fails: {told(fault)}") from fault


def told(fault: BaseException) -> str:
    """Return a fault on one line, with the place where it was raised."""
    text = " ".join(f"{type(fault).__name__}: {fault}".split())
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else text
