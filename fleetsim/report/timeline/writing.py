"""The file of a timeline, written from a run folder.

The tables are in memory, the trace is not: it is written in parts.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fleetsim.contracts import BoolArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.record import atomic_files
from fleetsim.record.saved_run import Run
from fleetsim.report.timeline.trace import trace_parts

FILE = "timeline.pftrace"
"""Name of the file in a run folder."""
Range = tuple[int, int]
"""First and last number."""

_NUMBER = re.compile("[0-9]{1,18}")
_HINT = "make room, or name another file with --out"


def write_timeline(
    run: Run,
    path: Path | None = None,
    *,
    clients: Sequence[Range] = (),
    rounds: Range | None = None,
    on_progress: Callable[[float], None] = lambda done_fraction: None,
) -> Path:
    """Write the timeline of a run for Perfetto, and return its path.

    An unfinished run is written up to its last recorded round. Unless given, the file is `FILE` in
    the run folder, all clients with a task have a track, and all rounds are shown. Power is that of
    all clients.
    """
    path = run.folder / FILE if path is None else paths.local(path)
    if paths.is_folder(path):
        raise DataError(f"{path}: is a folder; name a file in it with --out")
    shown_rounds, tasks = _of_rounds(run, rounds)
    is_shown = _of_clients(run, tasks, clients)
    parts = trace_parts(shown_rounds, tasks, is_shown, source=str(run.folder / "tasks.parquet"))
    with atomic_files.replacing(path, hint=_HINT) as file:
        for done_fraction, data in parts:
            file.write(data)
            on_progress(done_fraction)
    return path


def parse_ranges(text: str, option: str) -> list[Range]:
    """Return the numbers that an option names.

    >>> parse_ranges("3,40:49", "--clients")
    [(3, 3), (40, 49)]
    """
    ranges = []
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        bounds = (first, last if colon else first)
        if not all(_NUMBER.fullmatch(bound) for bound in bounds):
            raise ScenarioError(
                f"{option} {text!a}: {part!a} is no number and no range FIRST:LAST; write for"
                f" example {option} 0:9"
            )
        ranges.append((int(bounds[0]), int(bounds[1])))
    return ranges


def _of_rounds(run: Run, rounds: Range | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    table, tasks = run.rounds, run.recorded_tasks
    if tasks.empty:
        raise DataError(
            f"{run.folder}: has no tasks in a recorded round, so there is nothing to show; finish"
            " the run with --resume, or name another"
        )
    if rounds is not None:
        table = table[table["round"].between(*rounds)]
        tasks = tasks[tasks["round"].between(*rounds)]
        if tasks.empty:
            raise ScenarioError(
                f"--rounds {rounds[0]}:{rounds[1]}: {run.folder} has no tasks of these rounds; its"
                f" rounds are {run.rounds['round'].min()} to {run.rounds['round'].max()}"
            )
    return table, tasks


def _of_clients(run: Run, tasks: pd.DataFrame, clients: Sequence[Range]) -> BoolArray:
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
