"""The behaviour file of FedScale: when each of its clients is available, as `Records`.

The form is that of `client_behave_trace` (Lai et al., "FedScale: benchmarking model and system
performance of federated learning at scale", ICML 2022; SymbioticLab/FedScale,
`benchmark/dataset/data/device_info`): a pickled dict from the client's number to {"active": [..],
"inactive": [..], "finish_time": .., "duration": .., "model": ..}. A client is available from
active[i] to inactive[i], and begins anew after finish_time; duration is the sum of these times.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.plain_pickle import read_plain_pickle
from fleetsim.fleet.traces.usage.records import Records, trace_of_intervals
from fleetsim.quoting import quoted

_MOST_BYTE = 1 << 30
_MOST_INTERVALS = 50_000_000
"""Lists may be shared in a pickle, so the file's size does not bound them."""


class _Life(NamedTuple):
    """When one client is available."""

    active_s: list[int]
    inactive_s: list[int]
    finish_s: int


class _BrokenLifeError(ValueError):
    """Why a client is left out."""


def read_fedscale(path: Path) -> Records:
    """Read a behaviour file without executing anything that it may ask for.

    Clients whose lists contradict themselves are left out and counted in the notes; intervals of
    no second are dropped, touching ones joined.

    Raises:
        DataError: the file is missing, too large, not plain or not of this form, or no client's
            lists can be read.
    """
    clients = read_plain_pickle(path, most_byte=_MOST_BYTE)
    if not isinstance(clients, dict) or not clients:
        raise DataError(f"{path}: must hold a dict of clients, each with active and inactive")
    lives: dict[str, _Life] = {}
    left_out: Counter[str] = Counter()
    num_intervals = 0
    for client, fields in clients.items():
        if not isinstance(fields, dict):
            raise DataError(f"{path}: client {quoted(client)} is no dict; drop it")
        if str(client) in lives:
            raise DataError(f"{path}: client {quoted(str(client))} is there twice; drop one")
        try:
            life = _life(fields)
        except _BrokenLifeError as fault:
            left_out[str(fault)] += 1
            continue
        num_intervals += len(life.active_s)
        if num_intervals > _MOST_INTERVALS:
            raise DataError(f"{path}: more than {_MOST_INTERVALS} intervals; split it")
        lives[str(client)] = life
    reasons = ", ".join(f"{count} with {reason}" for reason, count in sorted(left_out.items()))
    if not lives:
        raise DataError(
            f"{path}: none of {len(clients)} clients can be read ({reasons}); fetch it again"
        )
    notes = [f"{len(lives)} of {len(clients)} clients"]
    notes += [f"left out: {reasons}"] if left_out else []
    return _records(str(path), lives, tuple(notes))


def _records(name: str, lives: dict[str, _Life], notes: tuple[str, ...]) -> Records:
    span_s = np.array([life.finish_s for life in lives.values()], dtype=np.int64)
    user = np.repeat(np.arange(span_s.size), [len(life.active_s) for life in lives.values()])
    start_s, stop_s = (
        np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=user.size)
        for lists in (
            (life.active_s for life in lives.values()),
            (life.inactive_s for life in lives.values()),
        )
    )
    lasts = np.flatnonzero(stop_s > start_s)
    trace = trace_of_intervals(
        name, tuple(lives), span_s, user[lasts], start_s[lasts], stop_s[lasts]
    )
    return Records(trace, np.zeros_like(span_s), np.zeros_like(span_s), notes)


def _life(fields: dict[Any, Any]) -> _Life:
    """One client's times.

    Raises:
        _BrokenLifeError: they are not there, not whole, or contradict themselves.
    """
    active_s, inactive_s = fields.get("active"), fields.get("inactive")
    finish_s, duration_s = fields.get("finish_time"), fields.get("duration")
    if not isinstance(active_s, list) or not isinstance(inactive_s, list):
        raise _BrokenLifeError("no lists active and inactive")
    # A bool is an int too, but no time.
    if type(finish_s) is not int or not all(
        type(time_s) is int for time_s in (*active_s, *inactive_s, duration_s)
    ):
        raise _BrokenLifeError("a time that is not whole seconds")
    if len(active_s) != len(inactive_s):
        raise _BrokenLifeError("lists of different lengths")
    # In turns: active, inactive, active ..., never falling, between 0 and the end.
    edges_s = [0, *chain.from_iterable(zip(active_s, inactive_s, strict=True)), finish_s]
    if any(later < sooner for sooner, later in pairwise(edges_s)):
        raise _BrokenLifeError("times that fall or leave the record")
    if not 0 < finish_s < 10**15:
        raise _BrokenLifeError("a record that lasts no second")
    if sum(inactive_s) - sum(active_s) != duration_s:
        raise _BrokenLifeError("a duration that is not the sum of its intervals")
    return _Life(active_s, inactive_s, finish_s)
