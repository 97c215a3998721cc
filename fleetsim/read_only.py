"""Arrays that nobody may change in place."""

import numpy as np
from numpy.typing import NDArray


def freeze(*arrays: NDArray[np.generic]) -> None:
    """Make arrays read-only."""
    for array in arrays:
        array.flags.writeable = False
