"""Tiles of the output map that Winograd's algorithm computes at once, see `winograd`.

The module exists so that `channels_last` can count tiles without importing numba.
"""

TILE = 4
"""Pixels of a tile in both directions, and the distance between tiles."""


def num_tiles(side: int) -> int:
    """Return the number of tiles along a side of so many pixels."""
    return -(-side // TILE)
