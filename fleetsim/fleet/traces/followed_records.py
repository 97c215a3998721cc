"""Records of a trace that clients follow: their assignment, by name, and the shift of each client.

The tables of a run name them, so that a row of a result leads back to the row of the measurement:
at virtual second t client i is at second (t + shift_s[i]) mod span of its record.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.read_only import freeze

_MIN_DRAWN = 4096
"""Fewest records of a stream: whole passes are drawn together, so that few streams are made."""


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

    @property
    def has_any(self) -> bool:
        """True if a client follows a record."""
        return bool((self.record >= 0).any())

    def names_of(self, clients: IntArray) -> tuple[str | None, ...]:
        """Return the name of the record of each client [n]; None: it follows none."""
        named: tuple[str | None, ...] = (*self.names, None)
        return tuple(named[record] for record in self.record[clients].tolist())

    def shifts_of_s(self, clients: IntArray) -> FloatArray:
        """Return the seconds by which each client is ahead [n]; NaN: it follows no record."""
        return np.where(self.record[clients] < 0, np.nan, self.shift_s[clients])


def assign_shuffled(num_records: int, num_clients: int, *, seed: int, purpose: str) -> IntArray:
    """Return the record of every client [N]; each `purpose` has its own streams.

    The clients get all records in random order, then all records in another random order, and so
    on. So all records are used about equally often, and the record of client i does not depend on
    the number of clients.
    """
    num_passes = -(-_MIN_DRAWN // num_records)
    passes = np.broadcast_to(np.arange(num_records, dtype=np.int64), (num_passes, num_records))
    drawn = [
        rng.stream(seed, purpose, index).permuted(passes, axis=1).ravel()
        for index in range(-(-num_clients // passes.size))
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *drawn])[:num_clients]
