"""The trace of a run: all its packets, in parts of some thousand tasks.

Tracks come first, then the interned texts, the rounds, and the tasks in the order of dispatch with
the power as far as later tasks do not change it. So memory holds one part, and the tasks that are
under way at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fleetsim.contracts import BoolArray, IntArray, Outcome, Purpose, RoundRow, TaskRow
from fleetsim.record.measures.ledger import COMPONENTS, components_in
from fleetsim.report.timeline import packets, wire
from fleetsim.report.timeline.packets import Interned
from fleetsim.report.timeline.power import PowerCounter, power_steps
from fleetsim.report.timeline.task_times import (
    NEVER,
    PHASES,
    WAITING,
    TaskTimes,
    nanoseconds,
    next_dispatches,
    task_times,
)

_SERVER, _ROUNDS, _ACCURACY, _POWER, _CLIENTS, _ALL, _FIRST_COMPONENT = range(1, 8)
_FIRST_DEVICE = _FIRST_COMPONENT + len(COMPONENTS)
_SHOWN_AS_TIME = {
    *("client", "device", "dispatched_at_s", "finished_at_s"),
    *("download_s", "compute_s", "upload_s"),
}
_TASK_COLUMNS = tuple(name for name in TaskRow._fields if name not in _SHOWN_AS_TIME)
"""Columns of the tasks table that are annotations."""
_TITLES = [f"{purpose}: {outcome}" for purpose in Purpose for outcome in Outcome]
"""Names of the slices of tasks."""
_COLUMNS = tuple(name for name in RoundRow._fields if name not in ("started_at_s", "finished_at_s"))
"""Columns of the rounds table that are annotations."""
_PARTS = ("no eligible clients", "probing", "training")
"""Names of the slices within a round."""
_NAMES = {
    "category": Interned("category", ["task", "phase", "round"]),
    "name": Interned("name", [*_TITLES, *PHASES, WAITING, *_PARTS]),
    "annotation": Interned("annotation", list(dict.fromkeys(_TASK_COLUMNS + _COLUMNS))),
    "value": packets.VALUES,
}
_MEANING = "Mean power while the joules were spent, summed over all tasks of the fleet."


def trace_parts(
    rounds: pd.DataFrame,
    tasks: pd.DataFrame,
    is_shown: BoolArray,
    *,
    source: str,
    num_together: int = 8192,
) -> Iterator[tuple[float, bytes]]:
    """Yield the share that is done and the next part of the trace, of one task or more.

    `is_shown` [T] says whether the client of each task has a track.
    """
    next_ns = next_dispatches(tasks, source=source)
    order = np.lexsort((tasks["task"], tasks["finished_at_s"], tasks["dispatched_at_s"]))
    columns = components_in(tasks)
    described, uuids = _client_tracks(tasks[is_shown])
    yield 0.0, _tracks(rounds, columns) + described
    yield 0.0, packets.interned(list(_NAMES.values()))
    yield 0.0, _round_packets(rounds)
    yield 0.0, _accuracy_packets(rounds)
    counters = {name: PowerCounter(_component_track(name)) for name in columns}
    whole = PowerCounter(_ALL)
    for first in range(0, len(order), num_together):
        rows, later = np.split(order[first:], [num_together])
        chunk = tasks.iloc[rows]
        times, shown = task_times(chunk), is_shown[rows]
        # A later task changes no power before its dispatch.
        next_s = tasks["dispatched_at_s"].iloc[later[:1]].to_numpy(dtype=np.float64)
        settled_ns = int(nanoseconds(next_s)[0]) if next_s.size else NEVER
        parts = [_task_packets(chunk[shown], times.only(shown), next_ns[rows][shown], uuids)]
        for name, column in columns.items():
            energy_j = np.nan_to_num(chunk[column].to_numpy(dtype=np.float64))
            steps = power_steps(name, energy_j, times)
            counters[name].add(steps)
            whole.add(steps)
            parts.append(counters[name].take(settled_ns))
        parts.append(whole.take(settled_ns))
        yield 1.0 - len(later) / len(order), b"".join(parts)


def _client_tracks(tasks: pd.DataFrame) -> tuple[bytes, pd.Series[Any]]:
    """Return descriptions of the tracks of clients, grouped by device, and numbers by client."""
    clients = tasks[["client", "device"]].drop_duplicates("client").sort_values("client")
    devices = sorted(clients["device"].unique())
    groups = pd.Series(_FIRST_DEVICE + np.arange(len(devices)), index=devices)
    first_client = _FIRST_DEVICE + len(devices)
    uuids = pd.Series(first_client + np.arange(len(clients)), index=clients["client"])
    numbers = clients["client"].to_numpy(dtype=np.int64)
    described = packets.tracks(
        groups.to_numpy(dtype=np.int64),
        devices,
        parent=np.full(len(devices), _CLIENTS),
        children="by rank",
    )
    described += packets.tracks(
        uuids.to_numpy(dtype=np.int64),
        [f"client {client}" for client in numbers],
        parent=clients["device"].map(groups).to_numpy(dtype=np.int64),
        ranks=np.arange(len(numbers)),
    )
    return described, uuids


def _task_packets(
    tasks: pd.DataFrame, times: TaskTimes, next_ns: IntArray, tracks: pd.Series[Any]
) -> bytes:
    """Return the packets of tasks in the order of the table, which is that of dispatch.

    `next_ns` is when the client of each task gets its next one, and `tracks` has the numbers of the
    clients' tracks.
    """
    uuids = np.asarray(tracks.loc[tasks["client"]], dtype=np.int64)
    titles = (tasks["purpose"].astype(object) + ": " + tasks["outcome"].astype(object)).map(
        {title: _NAMES["name"].iid(title) for title in _TITLES}
    )
    shown = [name for name in _TASK_COLUMNS if name in tasks.columns]
    details = packets.annotations_of(tasks, shown, _NAMES["annotation"])
    task, phase = (_NAMES["category"].iid(kind) for kind in ("task", "phase"))
    numbers = np.asarray(titles, dtype=np.int64)
    parts = [packets.begins(times.begin_ns, uuids, task, numbers, details)]
    for name in PHASES:
        parts += packets.phases(*times.phase(name), uuids, phase, _NAMES["name"].iid(name))
    parts.append(packets.ends(times.end_ns, uuids))
    released_ns = np.minimum(times.released_ns, next_ns)
    parts += packets.phases(times.end_ns, released_ns, uuids, phase, _NAMES["name"].iid(WAITING))
    return wire.join(*parts).tobytes()


def _round_packets(rounds: pd.DataFrame) -> bytes:
    """Return the packets of the rounds' slices, with the parts of each within it.

    The table has the total time that a round waited for eligible clients and that it probed. They
    are shown at its begin, in this order; the remaining time is that of the train tasks.
    """
    uuids = np.full(len(rounds), _ROUNDS)
    began_s = rounds["started_at_s"].to_numpy(dtype=np.float64)
    begin_ns = nanoseconds(began_s)
    end_ns = nanoseconds(rounds["finished_at_s"].to_numpy(dtype=np.float64))
    searched_s = began_s + rounds["idle_s"].to_numpy(dtype=np.float64)
    probed_s = searched_s + rounds["probe_s"].to_numpy(dtype=np.float64)
    searched_ns, probed_ns = (
        np.minimum(nanoseconds(moment_s), end_ns) for moment_s in (searched_s, probed_s)
    )
    titles = [
        f"round {number}" if is_aggregated else f"round {number} (not aggregated)"
        for number, is_aggregated in zip(rounds["round"], rounds["aggregated"], strict=True)
    ]
    shown = [name for name in _COLUMNS if name in rounds.columns]
    details = packets.annotations_of(rounds, shown, _NAMES["annotation"])
    category = _NAMES["category"].iid("round")
    rows = [packets.begins(begin_ns, uuids, category, titles, details)]
    bounds_ns = (begin_ns, searched_ns, probed_ns, end_ns)
    for part, within_ns in zip(_PARTS, pairwise(bounds_ns), strict=True):
        rows += packets.phases(*within_ns, uuids, category, _NAMES["name"].iid(part))
    rows.append(packets.ends(end_ns, uuids))
    return wire.join(*rows).tobytes()


def _accuracy_packets(rounds: pd.DataFrame) -> bytes:
    """Return the values of the counter of accuracy, each at the end of its round."""
    evaluated = rounds[rounds["accuracy"].notna()]
    at_ns = nanoseconds(evaluated["finished_at_s"].to_numpy(dtype=np.float64))
    return packets.counters(at_ns, _ACCURACY, evaluated["accuracy"].to_numpy(np.float64)).tobytes()


def _component_track(component: str) -> int:
    return _FIRST_COMPONENT + list(COMPONENTS).index(component)


def _tracks(rounds: pd.DataFrame, components: Iterable[str]) -> bytes:
    """Return the descriptions of all tracks but those of clients."""
    server, power = _just(_SERVER), _just(_POWER)
    described = packets.tracks(server, ["server"], ranks=_just(0), children="by rank")
    described += packets.tracks(_just(_ROUNDS), ["rounds"], parent=server, ranks=_just(0))
    if rounds["accuracy"].notna().any():
        described += packets.tracks(
            _just(_ACCURACY), ["accuracy"], parent=server, ranks=_just(1), unit=""
        )
    described += packets.tracks(power, ["power"], ranks=_just(1), children="by rank")
    counters = [(_ALL, "all"), *((_component_track(name), name) for name in components)]
    described += packets.tracks(
        np.array([uuid for uuid, _ in counters]),
        [name.replace("_", " ") for _, name in counters],
        parent=np.full(len(counters), _POWER),
        ranks=np.arange(len(counters)),
        unit="W",
        description=_MEANING,
    )
    return described + packets.tracks(
        _just(_CLIENTS), ["clients"], ranks=_just(2), children="by name"
    )


def _just(number: int) -> IntArray:
    return np.array([number])
