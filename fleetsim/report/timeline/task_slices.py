"""Tracks of clients, grouped by device, with a slice for each task and its phases within it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fleetsim.contracts import IntArray, Outcome, Purpose, TaskRow
from fleetsim.report.timeline import packets, wire
from fleetsim.report.timeline.packets import Interned
from fleetsim.report.timeline.task_times import PHASES, WAITING, TaskTimes

_SHOWN_AS_TIME = {
    *("client", "device", "dispatched_at_s", "finished_at_s"),
    *("download_s", "compute_s", "upload_s"),
}
COLUMNS = tuple(name for name in TaskRow._fields if name not in _SHOWN_AS_TIME)
"""Columns of the tasks table that are annotations."""
TITLES = [f"{purpose}: {outcome}" for purpose in Purpose for outcome in Outcome]
"""Names of the slices of tasks."""


def client_tracks(tasks: pd.DataFrame, *, parent: int, first: int) -> tuple[bytes, pd.Series[Any]]:
    """Return descriptions of the tracks of clients, and their numbers by client.

    The tracks of devices, in the order of their names, have the numbers from `first` on, and those
    of clients the numbers after them.
    """
    clients = tasks[["client", "device"]].drop_duplicates("client").sort_values("client")
    devices = sorted(clients["device"].unique())
    groups = pd.Series(first + np.arange(len(devices)), index=devices)
    uuids = pd.Series(first + len(devices) + np.arange(len(clients)), index=clients["client"])
    numbers = clients["client"].to_numpy(dtype=np.int64)
    described = packets.tracks(
        groups.to_numpy(dtype=np.int64),
        devices,
        parent=np.full(len(devices), parent),
        children="by rank",
    )
    described += packets.tracks(
        uuids.to_numpy(dtype=np.int64),
        [f"client {client}" for client in numbers],
        parent=clients["device"].map(groups).to_numpy(dtype=np.int64),
        ranks=np.arange(len(numbers)),
    )
    return described, uuids


def task_packets(
    tasks: pd.DataFrame,
    times: TaskTimes,
    next_ns: IntArray,
    tracks: pd.Series[Any],
    names: dict[str, Interned],
) -> bytes:
    """Return the packets of tasks in the order of the table, which is that of dispatch.

    `next_ns` is when the client of each task gets its next one, and `tracks` has the numbers of the
    clients' tracks.
    """
    uuids = np.asarray(tracks.loc[tasks["client"]], dtype=np.int64)
    titles = (tasks["purpose"].astype(object) + ": " + tasks["outcome"].astype(object)).map(
        {title: names["name"].iid(title) for title in TITLES}
    )
    shown = [name for name in COLUMNS if name in tasks.columns]
    details = packets.annotations_of(tasks, shown, names["annotation"])
    task, phase = (names["category"].iid(kind) for kind in ("task", "phase"))
    numbers = np.asarray(titles, dtype=np.int64)
    parts = [packets.begins(times.begin_ns, uuids, task, numbers, details)]
    for name in PHASES:
        parts += packets.phases(*times.phase(name), uuids, phase, names["name"].iid(name))
    parts.append(packets.ends(times.end_ns, uuids))
    released_ns = np.minimum(times.released_ns, next_ns)
    parts += packets.phases(times.end_ns, released_ns, uuids, phase, names["name"].iid(WAITING))
    return wire.join(*parts).tobytes()
