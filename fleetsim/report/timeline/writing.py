"""The file of a timeline, written from a run folder.

The tables are in memory, the trace is not: it is written in parts of some thousand tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fleetsim.contracts import BoolArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.record import atomic_files
from fleetsim.record.measures.ledger import COMPONENTS, components_in
from fleetsim.record.saved_run import Run
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

FILE = "timeline.pftrace"
"""Name of the file in a run folder."""
Range = tuple[int, int]
"""First and last number."""

_ROUNDS, _ACCURACY, _POWER, _CLIENTS, _ALL, _FIRST_COMPONENT = 1, 2, 3, 4, 5, 6
_CHUNK = 8192
"""Tasks that are encoded together."""
_FIRST_DEVICE = _FIRST_COMPONENT + len(COMPONENTS)
_NAMES = {
    "category": Interned("category", ["task", "phase", "round"]),
    "name": Interned("name", [*task_slices.TITLES, *PHASES, WAITING, *round_slices.PARTS]),
    "annotation": Interned(
        "annotation", list(dict.fromkeys(task_slices.COLUMNS + round_slices.COLUMNS))
    ),
    "value": VALUES,
}
_WAY_OUT = "make room, or name another file with --out"
_MEANING = "Mean power while the joules were spent, summed over all tasks of the fleet."


def write_timeline(
    run: Run,
    path: Path | None = None,
    *,
    clients: Sequence[Range] = (),
    rounds: Range | None = None,
    on_progress: Callable[[float], None] = lambda done_fraction: None,
) -> Path:
    """Write the timeline of a run for Perfetto, and return its path.

    Args:
        run: the run; an unfinished one is written up to its last recorded round.
        path: the file; `FILE` in the run folder unless given.
        clients: numbers of the clients that have a track; all with a task unless given. Power is
            that of all clients.
        rounds: first and last round; all unless given.
        on_progress: called with the share that is done.

    Raises:
        DataError: a table is missing, damaged or contradicts itself; the run has no tasks; or the
            file cannot be written.
        ScenarioError: there are no such clients or rounds.
    """
    path = run.folder / FILE if path is None else path
    if paths.is_folder(path):
        raise DataError(f"{path}: is a folder; name a file in it with --out")
    shown_rounds, tasks = _of_rounds(run, rounds)
    is_shown = _of_clients(run, tasks, clients)
    next_ns = next_dispatches(tasks, source=str(run.folder / "tasks.parquet"))
    order = in_order(tasks)
    described, uuids = task_slices.client_tracks(
        tasks[is_shown], parent=_CLIENTS, first=_FIRST_DEVICE
    )
    columns = components_in(tasks)
    counters = {name: PowerCounter(_component_track(name)) for name in columns}
    whole = PowerCounter(_ALL)
    with atomic_files.replacing(path, way_out=_WAY_OUT) as file:
        file.write(_tracks(shown_rounds, columns))
        file.write(described)
        file.write(packets.interned(list(_NAMES.values())))
        file.write(round_slices.round_packets(shown_rounds, _ROUNDS, _NAMES))
        file.write(round_slices.accuracy_packets(shown_rounds, _ACCURACY))
        for first in range(0, len(order), _CHUNK):
            rows = order[first : first + _CHUNK]
            chunk = tasks.iloc[rows]
            times, shown = task_times(chunk), is_shown[rows]
            file.write(
                task_slices.task_packets(
                    chunk[shown], times.only(shown), next_ns[rows][shown], uuids, _NAMES
                )
            )
            # A later task changes no power before its dispatch.
            later = tasks["dispatched_at_s"].iloc[order[first + _CHUNK :][:1]].to_numpy(np.float64)
            settled_ns = int(nanoseconds(later)[0]) if later.size else NEVER
            for name, column in columns.items():
                energy_j = np.nan_to_num(chunk[column].to_numpy(dtype=np.float64))
                steps = power_steps(name, energy_j, times)
                counters[name].add(steps)
                whole.add(steps)
                file.write(counters[name].take(settled_ns))
            file.write(whole.take(settled_ns))
            on_progress(min(1.0, (first + _CHUNK) / len(order)))
    return path


def parse_ranges(text: str, option: str) -> list[Range]:
    """Return the numbers that an option names.

    >>> parse_ranges("3,40:49", "--clients")
    [(3, 3), (40, 49)]

    Raises:
        ScenarioError: the text is no list of numbers and of ranges FIRST:LAST.
    """
    ranges = []
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        bounds = (first, last if colon else first)
        if not all(bound.isascii() and bound.isdigit() for bound in bounds):
            raise ScenarioError(
                f"{option} {text!a}: {part!a} is no number and no range FIRST:LAST; write for"
                f" example {option} 0:9"
            )
        ranges.append((int(bounds[0]), int(bounds[1])))
    return ranges


def _of_rounds(run: Run, rounds: Range | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rounds and their tasks."""
    table, tasks = run.rounds, run.recorded_tasks
    if tasks.empty:
        raise DataError(
            f"{run.folder}: has no tasks in a recorded round, so there is nothing to show; finish"
            " the run with --resume, or name another"
        )
    if rounds is not None:
        kept = table[table["round"].between(*rounds)]
        tasks = tasks[tasks["round"].between(*rounds)]
        if tasks.empty:
            raise ScenarioError(
                f"--rounds {rounds[0]}:{rounds[1]}: {run.folder} has no tasks of these rounds; its"
                f" rounds are {table['round'].min()} to {table['round'].max()}"
            )
        table = kept
    return table, tasks


def _of_clients(run: Run, tasks: pd.DataFrame, clients: Sequence[Range]) -> BoolArray:
    """Return whether the client of each task has a track."""
    is_shown: BoolArray = np.full(len(tasks), not clients)
    for first, last in clients:
        is_shown |= tasks["client"].between(first, last).to_numpy()
    if not is_shown.any():
        names = ",".join(f"{first}:{last}" for first, last in clients)
        raise ScenarioError(
            f"--clients {names}: none of them has a task in {run.folder}; clients with tasks are"
            f" between {tasks['client'].min()} and {tasks['client'].max()}"
        )
    return is_shown


def _component_track(component: str) -> int:
    return _FIRST_COMPONENT + list(COMPONENTS).index(component)


def _tracks(rounds: pd.DataFrame, components: Iterable[str]) -> bytes:
    """Return the descriptions of all tracks but those of clients."""

    def one(uuid: int, name: str, rank: int, **rest: object) -> bytes:
        return packets.tracks(np.array([uuid]), [name], ranks=np.array([rank]), **rest)  # type: ignore[arg-type]

    described = one(_ROUNDS, "rounds", 0)
    if rounds["accuracy"].notna().any():
        described += one(_ACCURACY, "accuracy", 1, unit="")
    described += one(_POWER, "power", 2, children="by rank")
    described += one(_ALL, "all", 0, unit="W", parent=np.array([_POWER]), description=_MEANING)
    names = list(components)
    tracks = np.array([_component_track(name) for name in names])
    described += packets.tracks(
        tracks,
        [name.replace("_", " ") for name in names],
        parent=np.full(len(names), _POWER),
        ranks=1 + np.arange(len(names)),
        unit="W",
        description=_MEANING,
    )
    return described + one(_CLIENTS, "clients", 3, children="by name")
