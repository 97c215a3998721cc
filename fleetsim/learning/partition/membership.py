"""Samples of each client, from the client of each sample."""

from __future__ import annotations

import numpy as np

from fleetsim.contracts import IntArray


def members(client_of: IntArray, num_clients: int) -> tuple[IntArray, ...]:
    """Return the ascending sample indices of clients 0..N-1, from the client of every sample [n].

    >>> [part.tolist() for part in members(np.array([1, 0, 1]), 2)]
    [[1], [0, 2]]
    """
    by_client = np.argsort(client_of, kind="stable")
    ends = np.cumsum(np.bincount(client_of, minlength=num_clients))
    return tuple(np.split(by_client, ends[:-1]))
