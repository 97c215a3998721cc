"""Behaviour file of FedScale: availability of its clients, as `UsageRecords`.

The form is that of `client_behave_trace` (Lai et al., "FedScale: benchmarking model and system
performance of federated learning at scale", ICML 2022; SymbioticLab/FedScale,
`benchmark/dataset/data/device_info`): a pickled dict from the client's number to {"active": [..],
"inactive": [..], "finish_time": .., "duration": .., "model": ..}. A client is available from
active[i] to inactive[i], and repeats after finish_time; duration is the sum of these times.
"""

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.plain_pickle import read_plain_pickle
from fleetsim.fleet.traces.usage.records import (
    UnusableError,
    UsageRecords,
    trace_of_intervals,
    usable,
)
from fleetsim.quoting import quoted

_MOST_BYTE = 1 << 30
_MOST_INTERVALS = 50_000_000
"""Limit; lists may be shared in a pickle, so the size of the file does not bound them."""


def read_fedscale(path: Path) -> UsageRecords:
    """Read a behaviour file without executing any of it.

    Clients with contradictory lists are left out and counted in the notes; empty intervals are
    dropped, touching ones joined.
    """
    clients = read_plain_pickle(path, most_byte=_MOST_BYTE)
    if not isinstance(clients, dict) or not clients:
        raise DataError(f"{path}: must hold a dict of clients, each with active and inactive")
    names: set[str] = set()
    num_intervals = 0
    for client, fields in clients.items():
        if not isinstance(fields, dict):
            raise DataError(f"{path}: client {quoted(client)} is no dict; drop it")
        if str(client) in names:
            raise DataError(f"{path}: client {quoted(str(client))} is there twice; drop one")
        names.add(str(client))
        active = fields.get("active")
        num_intervals += len(active) if isinstance(active, list) else 0
        if num_intervals > _MOST_INTERVALS:
            raise DataError(f"{path}: more than {_MOST_INTERVALS} intervals; split it")
    by_client, notes = usable(path, clients, _availability, what="clients")
    active_s, inactive_s, finish_s = zip(*by_client.values(), strict=True)
    span_s = np.array(finish_s, dtype=np.int64)
    user = np.repeat(np.arange(span_s.size), list(map(len, active_s)))
    start_s, stop_s = (
        np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=user.size)
        for lists in (active_s, inactive_s)
    )
    lasts = np.flatnonzero(stop_s > start_s)
    trace = trace_of_intervals(
        str(path), tuple(by_client), span_s, user[lasts], start_s[lasts], stop_s[lasts]
    )
    return UsageRecords(trace, np.zeros_like(span_s), np.zeros_like(span_s), notes)


def _availability(_: object, fields: dict[Any, Any]) -> tuple[list[int], list[int], int]:
    """Return the seconds at which a client becomes active and inactive, and the last of all."""
    active_s, inactive_s = fields.get("active"), fields.get("inactive")
    finish_s, duration_s = fields.get("finish_time"), fields.get("duration")
    if not isinstance(active_s, list) or not isinstance(inactive_s, list):
        raise UnusableError("with no lists active and inactive")
    # A bool is an int too.
    if type(finish_s) is not int or not all(
        type(time_s) is int for time_s in (*active_s, *inactive_s, duration_s)
    ):
        raise UnusableError("with a time that is not whole seconds")
    if len(active_s) != len(inactive_s):
        raise UnusableError("with lists of different lengths")
    # Alternating active and inactive, ascending, between 0 and the end.
    edges_s = [0, *chain.from_iterable(zip(active_s, inactive_s, strict=True)), finish_s]
    if any(later < sooner for sooner, later in pairwise(edges_s)):
        raise UnusableError("with times that fall or leave the record")
    if not 0 < finish_s < 10**15:
        raise UnusableError("with a record that lasts no second")
    if sum(inactive_s) - sum(active_s) != duration_s:
        raise UnusableError("with a duration that is not the sum of its intervals")
    return active_s, inactive_s, finish_s
