"""Images that stay bytes until their numbers are needed.

Numbers of float32 take four times the memory, and only those of the clients that train are needed
at a time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.learning.data.standardisation import from_pixels


@dataclass(frozen=True, slots=True, eq=False)
class ByteImages:
    """Images [n, C, H, W] that give `from_pixels` of their bytes when indexed.

    As an array they are these numbers too, float32.
    """

    pixels: NDArray[np.uint8]
    """[n, C, H, W]"""
    mean: tuple[float, ...]
    """Mean of each channel; see `from_pixels`."""
    std: tuple[float, ...]
    """Standard deviation of each channel."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the numbers, [n, C, H, W]."""
        return self.pixels.shape

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[np.float32]:
        """Return the numbers of some images [m, C, H, W]."""
        return from_pixels(self.pixels[rows], mean=self.mean, std=self.std)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("bytes have to be brought to numbers")
        return self[:].astype(dtype or np.float32, copy=False)
