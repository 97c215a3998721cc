"""Tiles of the output map that Winograd's algorithm computes at once, see `winograd`.

Apart from it, for those who ask before its loops are imported.
"""

from __future__ import annotations

TILE = 4
"""Pixels of a tile, and from tile to tile, in both directions."""


def num_tiles(side: int) -> int:
    """Tiles that a side of so many pixels takes.

    >>> num_tiles(8), num_tiles(9)
    (2, 3)
    """
    return -(-side // TILE)
