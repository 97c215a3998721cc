"""A made-up run: what an engine would record, as a pure function of the round's number."""

from pathlib import Path

import numpy as np

from fleetsim.contracts import (
    ClientColumns,
    ClientRows,
    FloatArray,
    Outcome,
    Recorder,
    RoundRow,
    State,
    TaskRow,
)
from fleetsim.record.manifest import Manifest
from fleetsim.record.recorder import RunRecorder
from fleetsim.schema.overrides import scenario_hash
from tests.report import rows

HASH = "0123456789abcdef" * 4
STARTED = Manifest(
    name="quick",
    status="running",
    seed=1,
    trainer="serial",
    checkpoint_every_rounds=3,
    scenario_hash=scenario_hash({"name": "quick"}),
    world_hash=HASH,
    versions={"fleetsim": "0.1.0"},
)
"""Manifest of a run of the scenario `name: quick`."""


def new_recorder(folder: Path, *, every_rounds: int, manifest: Manifest = STARTED) -> RunRecorder:
    recorder, state = RunRecorder.resume(folder, run=manifest.identity, every_rounds=every_rounds)
    assert state is None
    return recorder


def task_row(task: int, round_: int = 1) -> TaskRow:
    is_delivered = task % 3 > 0
    return rows.task_row(
        task,
        task % 5,
        ("pixel-6", "jetson-nano", "t2.small")[task % 3],
        round=round_,
        finished_at_s=round_ * 10.0 + task + 2.25,
        outcome=Outcome.DELIVERED if is_delivered else Outcome.LATE,
        energy_receive_j=0.1 * task,
        train_loss=1.0 / (1 + task) if is_delivered else None,
    )


def round_row(round_: int, accuracy: float | None = None, idle_s: float = 0.0) -> RoundRow:
    waiting_s = 1.5 if round_ % 2 else None
    return rows.round_row(round_, accuracy, idle_s=idle_s, waiting_s=waiting_s)


def client_columns() -> ClientColumns:
    size = 5
    return ClientColumns(
        client=np.arange(size),
        device=("pixel-6", "pixel-6", "t2.small", "jetson-nano", "t2.small"),
        num_samples=np.full(size, 20),
        num_selected=np.arange(size) + 3,
        num_delivered=np.arange(size),
        energy_compute_j=np.linspace(0.0, 1.0, size),
        energy_receive_j=np.zeros(size),
        energy_transmit_j=np.zeros(size),
        energy_tail_j=np.zeros(size),
        energy_idle_j=np.ones(size),
        battery_fraction=np.array([0.5, 0.75, np.nan, np.nan, np.nan]),
    )


def num_tasks_in(round_: int) -> int:
    """0, 1, 2, 3, 0, ... so that some checkpoints have no new task at all."""
    return (round_ - 1) % 4


def client_rows(clients: list[int], energy_j: FloatArray) -> ClientRows:
    """Rows of these clients, out of the meters of all."""
    return {"client": np.array(clients, dtype=np.int64), "energy_j": energy_j[clients]}


NOBODY = client_rows([], np.zeros(0))


def simulate(recorder: Recorder, state: State | None, num_rounds: int) -> None:
    """Record the rounds after `state` (None: from the first) up to `num_rounds`."""
    done = 0 if state is None else int(state["round"])
    next_task = 0 if state is None else int(state["next_task"])
    model = np.zeros(3) if state is None else state["model"].copy()
    energy_j = np.zeros(5)
    if state is not None and "clients/client" in state:
        energy_j[state["clients/client"]] = state["clients/energy_j"]
    for round_ in range(done + 1, num_rounds + 1):
        changed = set()
        for task in range(next_task, next_task + num_tasks_in(round_)):
            row = task_row(task, round_)
            recorder.task(row)
            energy_j[row.client] += row.energy_receive_j + round_
            changed.add(row.client)
        next_task += num_tasks_in(round_)
        model += round_
        accuracy = float(model[0]) / 1000
        # Powers of two: no two meters could be mistaken for each other.
        recorder.round(round_row(round_, accuracy, float(energy_j @ 2.0 ** np.arange(5))))
        recorder.checkpoint(
            {"round": np.array(round_), "next_task": np.array(next_task), "model": model},
            client_rows(sorted(changed), energy_j),
        )
