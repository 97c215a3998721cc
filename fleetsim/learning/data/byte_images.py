"""Images that stay the bytes they were published as until somebody needs their numbers.

Numbers of float32 take four times the memory, and most of them are not needed at once: clients that
train take their own samples, one cohort after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.learning.data.standardisation import from_pixels


@dataclass(frozen=True, slots=True, eq=False)
class ByteImages:
    """Images [n, C, H, W] that stand for `from_pixels` of their bytes.

    Indexed or as an array they are these numbers, float32.
    """

    pixels: NDArray[np.uint8]
    """[n, C, H, W]"""
    mean: tuple[float, ...]
    """Of each channel; see `from_pixels`."""
    std: tuple[float, ...]
    """See there."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the numbers, [n, C, H, W]."""
        return self.pixels.shape

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.pixels)

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[np.float32]:
        """The numbers of some images [m, C, H, W]."""
        return from_pixels(self.pixels[rows], mean=self.mean, std=self.std)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The numbers of all."""
        if copy is False:
            raise ValueError("bytes have to be brought to numbers")
        return self[:].astype(dtype or np.float32, copy=False)
