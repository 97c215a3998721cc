"""Garbage collection, paused while libraries are imported."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect no garbage within the block, which imports; examine none of its objects later.

    Imports leave half a million objects that never become garbage. Examining them again and again
    took a quarter of their time. For commands only: in a program of a user, objects of theirs would
    not be examined either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
