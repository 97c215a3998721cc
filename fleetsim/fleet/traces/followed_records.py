"""Records of a trace that clients follow, by name, and by how much each client is ahead of its own.

The tables of a run name them, so that a row of a result leads back to the row of the measurement:
at virtual second t client i is at second (t + shift_s[i]) mod span of its record.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.read_only import freeze


@dataclass(frozen=True, slots=True, eq=False)
class FollowedRecords:
    """Record and shift of every client."""

    names: tuple[str, ...]
    """Name of every record [R]."""
    record: IntArray
    """Index of the record of every client [N]; -1: it follows none."""
    shift_s: FloatArray
    """Seconds by which every client is ahead of its record [N]."""

    def __post_init__(self) -> None:
        freeze(self.record, self.shift_s)

    def names_of_clients(self) -> tuple[str | None, ...]:
        """Return the name of every client's record [N]; None: it follows none."""
        named: tuple[str | None, ...] = (*self.names, None)
        return tuple(named[record] for record in self.record.tolist())

    def shifts_of_clients_s(self) -> FloatArray:
        """Return the seconds by which every client is ahead [N]; NaN: it follows no record."""
        return np.where(self.record < 0, np.nan, self.shift_s)
