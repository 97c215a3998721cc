"""Which way bits go between the server and a client."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Direction(StrEnum):
    """Which way a transfer goes: down to the client, which receives, or up from it."""

    DOWN = "down"
    UP = "up"


ROW: Final = {Direction.DOWN: 0, Direction.UP: 1}
"""Row of a direction in arrays of both [2, N]."""
