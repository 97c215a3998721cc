"""Assignment of records of a trace to clients, in shuffled passes over all records."""

import numpy as np

from fleetsim import rng
from fleetsim.contracts import IntArray

_MIN_DRAWN = 4096
"""Fewest records of a stream: whole passes are drawn together, so that few streams are made."""


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
