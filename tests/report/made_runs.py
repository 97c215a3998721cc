"""Made-up runs in real run folders: plausible numbers, with no engine behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim.contracts import (
    ClientColumns,
    FloatArray,
    IntArray,
    Outcome,
    Purpose,
    RoundRow,
    TaskRow,
)
from fleetsim.record.manifest import Manifest, PlatformRecord, write_manifest
from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.record.run_folder import create_folder
from fleetsim.record.saved_run import Run, open_run
from fleetsim.schema import strict_yaml
from fleetsim.schema.overrides import content_hash, scenario_hash
from tests.record.rows import new_recorder
from tests.report.rows import round_row, task_row

SPEED_S = {"pixel-6": 9.0, "realme-q3s": 22.0, "jetson-nano-cpu": 34.0, "t2.small": 14.0}
"""Kinds of devices, and how long each computes."""
_ROUND_S = 50.0
_METERS = [f"energy_{part}_j" for part in ("compute", "receive", "transmit", "tail", "idle")]


@dataclass
class MadeUp:
    """Properties of a made-up run; defaults are a small run that went well."""

    name: str = "made-up"
    selector: Mapping[str, Any] = field(default_factory=lambda: {"kind": "random"})
    seed: int = 1
    size: int = 40
    devices: Mapping[str, float] = field(default_factory=lambda: SPEED_S)
    num_rounds: int = 12
    cohort: int = 6
    num_probes: int = 0
    deadline_s: float = 45.0
    more_of_server: Mapping[str, Any] = field(default_factory=dict)
    is_trained: bool = True
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
                **self.more_of_server,
            },
            "stop": {"rounds": max(self.num_rounds, 1)},
            "checkpoint": {"every_rounds": 1},
        }


def make_run(folder: Path, made: MadeUp) -> Run:
    """Write the folder of a made-up run and open it."""
    rounds: list[RoundRow] = []
    tasks: list[TaskRow] = []
    for round_ in range(1, made.num_rounds + 1):
        of_round = _tasks(made, round_, first=len(tasks))
        tasks += of_round
        rounds.append(_round(made, of_round, round_, spent_j=sum(task.energy_j for task in tasks)))
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
        world_hash=content_hash([made.seed, made.size, sorted(made.devices)]),
        platforms=tuple(PlatformRecord.of(features, {}) for features in made.platforms),
        versions={"fleetsim": made.version, "python": "3.11.0"},
    )
    create_folder(folder, scenario=strict_yaml.dump(made.scenario()), manifest=manifest)
    recorder = new_recorder(folder, every_rounds=1000, manifest=manifest)
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
        changes["digest"] = recorder.finish([_clients(made, tasks)])
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


def _tasks(made: MadeUp, round_: int, *, first: int) -> list[TaskRow]:
    """Probes, then train tasks; one of four is late, another offline."""
    outcomes = (Outcome.DELIVERED, Outcome.DELIVERED, Outcome.LATE, Outcome.OFFLINE)
    began_s, rows = _ROUND_S * (round_ - 1), []
    for number in range(made.num_probes + made.cohort):
        # Low numbers more often, so that some clients pay more than others.
        client = number * (1 + round_ % 3) % made.size
        device, is_probe = _device(made, client), number < made.num_probes
        compute_s = 1.0 if is_probe else made.devices[device]
        row = task_row(
            first + number,
            client,
            device,
            round=round_,
            purpose=Purpose.PROBE if is_probe else Purpose.TRAIN,
            outcome=Outcome.DELIVERED if is_probe else outcomes[number % 4],
            dispatched_at_s=began_s,
            compute_s=compute_s,
            energy_compute_j=2.1 * compute_s,
            finished_at_s=began_s + 4.0 + compute_s,
        )
        rows.append(row)
    return rows


def _round(made: MadeUp, tasks: list[TaskRow], round_: int, *, spent_j: float) -> RoundRow:
    train = [task for task in tasks if task.purpose is Purpose.TRAIN]
    done_s = [task.finished_at_s for task in train if task.outcome is Outcome.DELIVERED]
    # Every fifth round is not evaluated.
    is_evaluated = made.is_trained and round_ % 5 != 0
    return round_row(
        round_,
        0.93 * (1.0 - np.exp(-round_ / 6.0)) if is_evaluated else None,
        started_at_s=_ROUND_S * (round_ - 1),
        finished_at_s=_ROUND_S * round_,
        num_eligible=made.size,
        num_probed=len(tasks) - len(train),
        num_selected=len(train),
        num_delivered=len(done_s),
        num_late=sum(task.outcome is Outcome.LATE for task in train),
        num_lost=sum(task.outcome is Outcome.OFFLINE for task in train),
        waiting_s=max(done_s) - min(done_s) if len(done_s) > 1 else None,
        energy_j=sum(task.energy_j for task in tasks),
        energy_probe_j=sum(task.energy_j for task in tasks if task.purpose is Purpose.PROBE),
        energy_wasted_j=sum(
            task.energy_j for task in tasks if task.outcome is not Outcome.DELIVERED
        ),
        energy_total_j=spent_j,
    )


def _clients(made: MadeUp, tasks: Sequence[TaskRow]) -> ClientColumns:
    clients = np.array([task.client for task in tasks], dtype=np.int64)

    def total(column: str) -> FloatArray:
        spent = np.array([getattr(task, column) for task in tasks], dtype=np.float64)
        return np.asarray(np.bincount(clients, spent, made.size), dtype=np.float64)

    def count(*outcomes: Outcome) -> IntArray:
        counted = [task.purpose is Purpose.TRAIN and task.outcome in outcomes for task in tasks]
        return np.bincount(clients[counted], minlength=made.size)

    energy_j: dict[str, Any] = {column: total(column) for column in _METERS}
    return ClientColumns(
        client=np.arange(made.size),
        device=tuple(_device(made, client) for client in range(made.size)),
        num_samples=np.full(made.size, 20),
        num_selected=count(*Outcome),
        num_delivered=count(Outcome.DELIVERED),
        **energy_j,
        battery_fraction=np.full(made.size, np.nan),
    )
