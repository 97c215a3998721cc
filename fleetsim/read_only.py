"""Arrays that nobody may change in place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def freeze(*arrays: NDArray[np.generic]) -> None:
    """Make arrays read-only."""
    for array in arrays:
        array.flags.writeable = False
