"""Direction of a transfer between the server and a client."""

from enum import StrEnum
from typing import Final


class Direction(StrEnum):
    """Direction of a transfer: down to the client, or up from it."""

    DOWN = "down"
    UP = "up"


ROW: Final = {Direction.DOWN: 0, Direction.UP: 1}
"""Row of each direction in arrays of both [2, N]."""
