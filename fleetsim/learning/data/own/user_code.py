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
        text = " ".join(f"{type(fault).__name__}: {fault}".split())
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        raise DataError(
            f"{place}: {what} fails: {text} ({frame.filename}, line {frame.lineno})"
        ) from fault
