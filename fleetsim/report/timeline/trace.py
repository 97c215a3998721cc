"""The trace of a run: all its packets, in parts of some thousand tasks.

Tracks come first, then the interned texts, the rounds, and the tasks in the order of dispatch with
the power as far as later tasks do not change it. So memory holds one part, and the tasks that are
under way at its end.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from fleetsim.contracts import BoolArray, IntArray
from fleetsim.record.measures.ledger import COMPONENTS, components_in
from fleetsim.report.timeline import packets, round_slices, task_slices
from fleetsim.report.timeline.debug_annotations import VALUES
from fleetsim.report.timeline.packets import Interned
from fleetsim.report.timeline.power import PowerCounter, power_steps
from fleetsim.report.timeline.task_times import (
    NEVER,
    PHASES,
    WAITING,
    in_order,
    nanoseconds,
    next_dispatches,
    task_times,
)

_SERVER, _ROUNDS, _ACCURACY, _POWER, _CLIENTS, _ALL, _FIRST_COMPONENT = range(1, 8)
_FIRST_DEVICE = _FIRST_COMPONENT + len(COMPONENTS)
_NAMES = {
    "category": Interned("category", ["task", "phase", "round"]),
    "name": Interned("name", [*task_slices.TITLES, *PHASES, WAITING, *round_slices.PARTS]),
    "annotation": Interned(
        "annotation", list(dict.fromkeys(task_slices.COLUMNS + round_slices.COLUMNS))
    ),
    "value": VALUES,
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
    """Yield the share that is done and the next part of the trace.

    Args:
        rounds: rounds to show, as of a run.
        tasks: their tasks, one or more.
        is_shown: whether the client of each task has a track [T].
        source: place of the tasks, for messages.
        num_together: number of tasks that are encoded together.
    """
    next_ns = next_dispatches(tasks, source=source)
    order = in_order(tasks)
    columns = components_in(tasks)
    described, uuids = task_slices.client_tracks(
        tasks[is_shown], parent=_CLIENTS, first=_FIRST_DEVICE
    )
    yield 0.0, _tracks(rounds, columns) + described
    yield 0.0, packets.interned(list(_NAMES.values()))
    yield 0.0, round_slices.round_packets(rounds, _ROUNDS, _NAMES)
    yield 0.0, round_slices.accuracy_packets(rounds, _ACCURACY)
    counters = {name: PowerCounter(_component_track(name)) for name in columns}
    whole = PowerCounter(_ALL)
    for first in range(0, len(order), num_together):
        rows, later = np.split(order[first:], [num_together])
        chunk = tasks.iloc[rows]
        times, shown = task_times(chunk), is_shown[rows]
        # A later task changes no power before its dispatch.
        next_s = tasks["dispatched_at_s"].iloc[later[:1]].to_numpy(dtype=np.float64)
        settled_ns = int(nanoseconds(next_s)[0]) if next_s.size else NEVER
        parts = [
            task_slices.task_packets(
                chunk[shown], times.only(shown), next_ns[rows][shown], uuids, _NAMES
            )
        ]
        for name, column in columns.items():
            energy_j = np.nan_to_num(chunk[column].to_numpy(dtype=np.float64))
            steps = power_steps(name, energy_j, times)
            counters[name].add(steps)
            whole.add(steps)
            parts.append(counters[name].take(settled_ns))
        parts.append(whole.take(settled_ns))
        yield 1.0 - len(later) / len(order), b"".join(parts)


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
