"""Made-up runs in real run folders: plausible numbers, with no engine behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim import rng
from fleetsim.contracts import ClientColumns, Outcome, Purpose, RoundRow, TaskRow
from fleetsim.record.manifest import (
    Manifest,
    PlatformRecord,
    scenario_hash,
    write_manifest,
)
from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.record.run_folder import create_folder
from fleetsim.record.saved_run import Run, open_run
from fleetsim.schema import strict_yaml
from tests.record.rows import new_recorder
from tests.report.rows import task_row

SPEED_S = {"pixel-6": 9.0, "realme-q3s": 22.0, "jetson-nano-cpu": 34.0, "t2.small": 14.0}
"""Kinds of devices, and how long each computes."""


@dataclass
class MadeUp:
    """What to make up; defaults are a small run that went well."""

    name: str = "made-up"
    selector: Mapping[str, Any] = field(default_factory=lambda: {"kind": "random"})
    seed: int = 1
    size: int = 40
    devices: Mapping[str, float] = field(default_factory=lambda: SPEED_S)
    num_rounds: int = 12
    cohort: int = 6
    num_probes: int = 0
    deadline_s: float = 45.0
    is_trained: bool = True
    speed: float = 1.0
    """How fast accuracy rises."""
    status: str = "done"
    stop_text: str | None = None
    version: str = "0.1.0"
    platforms: Sequence[Mapping[str, str]] = ()
    """Features of the numerical platforms that ran it."""

    def scenario(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seed": self.seed,
            "task": {"dataset": {"kind": "digits"}},
            "fleet": {"size": self.size, "devices": dict.fromkeys(self.devices, 1.0)},
            "server": {
                "cohort": self.cohort,
                "deadline_s": self.deadline_s,
                "selector": dict(self.selector),
            },
            "stop": {"rounds": self.num_rounds},
            "checkpoint": {"every_rounds": 1},
        }


def make_run(folder: Path, made: MadeUp) -> Run:
    """Write the folder of a made-up run and open it."""
    rounds: list[RoundRow] = []
    tasks: list[TaskRow] = []
    now_s, total_j = 0.0, 0.0
    for round_ in range(1, made.num_rounds + 1):
        of_round = _tasks(made, round_, now_s, first=len(tasks))
        rounds.append(_round(made, of_round, round_, now_s, total_j))
        tasks += of_round
        now_s, total_j = rounds[-1].finished_at_s, rounds[-1].energy_total_j
    return write_run(folder, made, rounds, tasks)


def write_run(
    folder: Path, made: MadeUp, rounds: Sequence[RoundRow], tasks: Sequence[TaskRow] | None = None
) -> Run:
    """Write a run folder with these rows and open it.

    Unless there are tasks, one task a round of client 0 spends what the rounds say.
    """
    if tasks is None:
        tasks = _spending(rounds)
    manifest = Manifest(
        name=made.name,
        status="running",
        host_s=12.5,
        seed=made.seed,
        trainer="serial" if made.is_trained else "none",
        checkpoint_every_rounds=1,
        scenario_hash=scenario_hash(made.scenario()),
        world_hash=_hash(f"{made.seed}/{made.size}/{sorted(made.devices)}"),
        platforms=tuple(PlatformRecord.of(features, {}) for features in made.platforms),
        versions={"fleetsim": made.version, "python": "3.11.0"},
    )
    create_folder(folder, scenario=strict_yaml.dump(made.scenario()), manifest=manifest)
    recorder = new_recorder(folder, every_rounds=1000)
    for task in tasks:
        recorder.task(task)
    for row in rounds:
        recorder.round(row)
    changes: dict[str, Any] = {
        "status": made.status,
        "rounds": len(rounds),
        "virtual_s": rounds[-1].finished_at_s if rounds else 0.0,
        "stop_text": made.stop_text,
    }
    if made.status == "done":
        changes["digest"] = recorder.finish(_clients(made, tasks))
        changes["stop_rule"] = "rounds"
        changes["stop_text"] = made.stop_text or f"{len(rounds)} rounds done"
    elif made.status == "running":  # killed: a checkpoint is all there is
        recorder.checkpoint(
            {"round": np.array(len(rounds))}, {"client": np.empty(0, dtype=np.int64)}
        )
        recorder.flush()
        (folder / "rounds.parquet").unlink()
        (folder / "tasks.parquet").unlink()
        changes |= {"rounds": 0, "virtual_s": 0.0}
    else:
        recorder.flush()
    if made.status != "running":
        changes["table_digests"] = recorder.table_digests
    write_manifest(folder, manifest.model_copy(update=changes))
    return open_run(folder)


def reworded(run: Run, old: str, new: str) -> Run:
    """The run as if its scenario had said something else."""
    path = run.folder / "scenario.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    hashed = scenario_hash(strict_yaml.parse(path.read_text(), "made up").data)
    write_manifest(run.folder, run.manifest.model_copy(update={"scenario_hash": hashed}))
    return open_run(run.folder)


def _spending(rounds: Sequence[RoundRow]) -> list[TaskRow]:
    tasks: list[TaskRow] = []
    spent_j = 0.0
    for row in rounds:
        joules: dict[str, Any] = dict.fromkeys(COMPONENTS.values(), 0.0)
        joules["energy_compute_j"] = row.energy_total_j - spent_j
        tasks.append(task_row(len(tasks), 0, round=row.round, **joules))
        spent_j = row.energy_total_j
    return tasks


def _device(made: MadeUp, client: int) -> str:
    return sorted(made.devices)[client % len(made.devices)]


def _tasks(made: MadeUp, round_: int, now_s: float, *, first: int) -> list[TaskRow]:
    stream = rng.stream(made.seed, f"made-up/{dict(made.selector)}", round_)
    probed = stream.choice(made.size, made.num_probes, replace=False)
    # Low numbers more often, so that some clients pay more than others.
    weights = 1.0 / (1.0 + np.arange(made.size))
    chosen = stream.choice(made.size, made.cohort, replace=False, p=weights / weights.sum())
    rows: list[TaskRow] = []
    for purpose, clients in ((Purpose.PROBE, probed), (Purpose.TRAIN, chosen)):
        for client in clients.tolist():
            draws = stream.exponential(size=3)
            device = _device(made, client)
            speed_s = 1.0 if purpose is Purpose.PROBE else made.devices[device]
            rows.append(
                _task(made, first + len(rows), round_, client, purpose, now_s, speed_s, draws)
            )
    return rows


def _task(
    made: MadeUp,
    number: int,
    round_: int,
    client: int,
    purpose: Purpose,
    now_s: float,
    speed_s: float,
    draws: np.ndarray[Any, Any],
) -> TaskRow:
    phases = [2.0 * draws[0], speed_s * (0.7 + 0.3 * draws[1]), 3.0 * draws[2]]
    outcome, limit_s = Outcome.DELIVERED, made.deadline_s
    if number % 11 == 3:
        outcome, limit_s = Outcome.OFFLINE, 0.6 * sum(phases)
    elif number % 17 == 5:
        outcome, limit_s = Outcome.BATTERY, 0.8 * sum(phases)
    elif sum(phases) > made.deadline_s:
        outcome = Outcome.LATE
    lived: list[float] = []
    for phase_s in phases:
        lived.append(min(phase_s, max(0.0, limit_s - sum(lived))))
    is_loss_known = outcome is Outcome.DELIVERED and purpose is Purpose.TRAIN and made.is_trained
    return TaskRow(
        task=number,
        round=round_,
        client=client,
        device=_device(made, client),
        purpose=purpose,
        dispatched_at_s=now_s,
        download_s=lived[0],
        compute_s=lived[1],
        upload_s=lived[2],
        finished_at_s=now_s + sum(lived),
        outcome=outcome,
        energy_compute_j=2.1 * lived[1],
        energy_receive_j=0.8 * lived[0],
        energy_transmit_j=1.2 * lived[2],
        energy_tail_j=0.5 if lived[2] else 0.0,
        energy_idle_j=0.4 * sum(lived),
        download_byte=1000,
        upload_byte=1000,
        train_flop=1e9,
        num_samples=20,
        train_loss=1.0 / round_ if is_loss_known else None,
        staleness=0,
    )


def _round(
    made: MadeUp, tasks: list[TaskRow], round_: int, now_s: float, total_j: float
) -> RoundRow:
    train = [task for task in tasks if task.purpose is Purpose.TRAIN]
    done_s = [task.finished_at_s - now_s for task in train if task.outcome is Outcome.DELIVERED]
    lost = (Outcome.OFFLINE, Outcome.BATTERY)
    energy_j = sum(task.energy_j for task in tasks)
    wobble = float(rng.stream(made.seed, "made-up/wobble", round_).normal(scale=0.012))
    accuracy = min(1.0, 0.93 * (1.0 - np.exp(-made.speed * round_ / 6.0)) + wobble)
    return RoundRow(
        round=round_,
        started_at_s=now_s,
        finished_at_s=max(task.finished_at_s for task in tasks) + 1.0,
        accuracy=max(0.1, accuracy) if made.is_trained and round_ % 5 else None,
        loss=2.0 / round_ if made.is_trained and round_ % 5 else None,
        num_eligible=made.size,
        num_probed=len(tasks) - len(train),
        num_selected=len(train),
        num_delivered=len(done_s),
        num_late=sum(task.outcome is Outcome.LATE for task in train),
        num_lost=sum(task.outcome in lost for task in train),
        num_cancelled=0,
        aggregated=bool(done_s),
        idle_s=0.0,
        probe_s=0.0,
        waiting_s=max(done_s) - min(done_s) if len(done_s) > 1 else None,
        energy_j=energy_j,
        energy_probe_j=sum(task.energy_j for task in tasks if task.purpose is Purpose.PROBE),
        energy_wasted_j=sum(
            task.energy_j for task in tasks if task.outcome is not Outcome.DELIVERED
        ),
        energy_total_j=total_j + energy_j,
    )


def _clients(made: MadeUp, tasks: Sequence[TaskRow]) -> ClientColumns:
    def total(column: str) -> np.ndarray[Any, Any]:
        sums = np.zeros(made.size)
        for task in tasks:
            sums[task.client] += getattr(task, column)
        return sums

    def count(*outcomes: Outcome) -> np.ndarray[Any, Any]:
        counts = np.zeros(made.size, dtype=np.int64)
        for task in tasks:
            counts[task.client] += task.purpose is Purpose.TRAIN and task.outcome in outcomes
        return counts

    return ClientColumns(
        client=np.arange(made.size),
        device=tuple(_device(made, client) for client in range(made.size)),
        num_samples=np.full(made.size, 20),
        num_selected=count(*Outcome),
        num_delivered=count(Outcome.DELIVERED),
        energy_compute_j=total("energy_compute_j"),
        energy_receive_j=total("energy_receive_j"),
        energy_transmit_j=total("energy_transmit_j"),
        energy_tail_j=total("energy_tail_j"),
        energy_idle_j=total("energy_idle_j"),
        battery_fraction=np.full(made.size, np.nan),
    )


def _hash(text: str) -> str:

    return hashlib.sha256(text.encode()).hexdigest()
