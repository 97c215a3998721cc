"""Running tasks of a buffered server, and their columns in a checkpoint."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fleetsim.contracts import Parameters, State, Work, WorkKind
from fleetsim.engine.tasks.task import Task, TrainingRequest

_Columns = Mapping[str, type]

_TASK: _Columns = {
    "number": int,
    "dispatched_at_s": float,
    "round": int,
    "selection": int,
    "version": int,
}
_REQUEST: _Columns = {"client": int, "upload_fraction": float, "weight": float, "is_share": bool}
_WORK: _Columns = {"epochs": int, "steps": int, "clock_fraction": float, "tells_epoch_losses": bool}


class SavedTask(NamedTuple):
    """Running task as a checkpoint holds it."""

    number: int
    dispatched_at_s: float
    round: int
    selection: int
    version: int
    request: TrainingRequest
    base: Parameters


def state_of_running(running: Iterable[Task]) -> State:
    """Return the columns of running tasks by field name, and each base model once."""
    tasks = sorted(running, key=lambda task: task.number)
    state: State = {}
    for task in tasks:
        if task.job is not None:
            base = task.job.base.view()  # never changed, so that no copy is needed
            base.flags.writeable = False
            state[f"running/base/{task.version}"] = base
    requests = [task.request for task in tasks]
    for name in _TASK:
        state[f"running/{name}"] = _column(tasks, name)
    for name in _REQUEST:
        state[f"running/{name}"] = _column(requests, name)
    for name in _WORK:
        state[f"running/{name}"] = _column([request.work for request in requests], name)
    return state


def saved_tasks(state: State) -> list[SavedTask]:
    """Return the tasks of `state_of_running`, in the order of their dispatch."""
    return [
        SavedTask(
            **running,
            request=TrainingRequest(work=Work(WorkKind.TRAIN, **work), **request),
            base=state[f"running/base/{running['version']}"].astype(np.float32, copy=False),
        )
        for running, request, work in zip(
            _records(state, _TASK), _records(state, _REQUEST), _records(state, _WORK), strict=True
        )
    ]


def first_dispatch_s(state: State) -> float:
    """Return the moment at which the first of the saved tasks was dispatched; inf if none."""
    return float(np.min(state["running/dispatched_at_s"], initial=np.inf))


def _column(records: Sequence[object], name: str) -> Any:
    """Return one field of records [n]; NaN where it is None."""
    return np.array([getattr(record, name) for record in records], dtype=np.float64)


def _records(state: State, columns: _Columns) -> list[dict[str, Any]]:
    values = {
        name: [
            None if math.isnan(value) else kind(value)
            for value in state[f"running/{name}"].tolist()
        ]
        for name, kind in columns.items()
    }
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
