"""Reports and table rows of ended tasks and rounds, and their conservation checks."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from fleetsim.contracts import (
    ClientColumns,
    Evaluation,
    FloatArray,
    JobResult,
    Outcome,
    ProbeRequest,
    Purpose,
    Report,
    RoundRow,
    TaskRow,
    WorkKind,
)
from fleetsim.engine.idle_state import in_blocks
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.world import World
from fleetsim.errors import SimulationError
from fleetsim.fleet.energy import Component
from fleetsim.fleet.population import Fleet
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.units import BIT_PER_BYTE

_SEEN_BY_SERVER = (
    Outcome.DELIVERED,
    Outcome.LATE,
    Outcome.CANCELLED,
    Outcome.STALE,
    Outcome.REFUSED,
)


_OF_RESULT = (
    *("download_s", "compute_s", "upload_s", "finished_at_s", "outcome", "num_samples"),
    *("refused", "num_pauses", "paused_s", "opinion"),
)
_NOTHING = JobResult(num_samples=0)
_ENERGY_COLUMNS = tuple(f"energy_{component.name.lower()}_j" for component in Component)


def report_of(result: TaskResult, yielded: JobResult | None, *, staleness: int = 0) -> Report:
    """Return the report of an ended task; all causes of a lost client look the same."""
    task, request, outcome = result.task, result.task.request, result.outcome
    is_delivered, uploads_vector = outcome is Outcome.DELIVERED, task.uploads_vector
    training = request if isinstance(request, TrainingRequest) else None
    got = yielded or _NOTHING
    return Report(
        client=request.client,
        purpose=Purpose.TRAIN if training else Purpose.PROBE,
        outcome=outcome if outcome in _SEEN_BY_SERVER else Outcome.OFFLINE,
        dispatched_at_s=task.dispatched_at_s,
        finished_at_s=result.finished_at_s,
        num_samples=result.num_samples,
        download_s=result.download_s if is_delivered else 0.0,
        compute_s=result.compute_s if is_delivered else 0.0,
        upload_s=result.upload_s if is_delivered else 0.0,
        loss=got.loss,
        loss_rms=got.loss_rms,
        accuracy=got.accuracy,
        vector=got.vector if uploads_vector else None,
        update_norm=None if uploads_vector else _update_norm(task, got),
        energy_j=math.fsum(result.energy_j) if is_delivered else None,
        resources=result.resources if is_delivered else None,
        base=task.job.base if task.job and training else None,
        refused=result.refused,
        staleness=staleness,
        completed_fraction=result.completed_fraction if is_delivered else 1.0,
        weight_fraction=result.weight_fraction if is_delivered else 1.0,
        epoch_losses=got.epoch_losses,
        weight=training.weight if training else None,
        is_share=training is not None and training.is_share,
        sent=got.sent if training else None,
        metrics=got.metrics if training else None,
    )


def _update_norm(task: Task, yielded: JobResult) -> float | None:
    """Return the distance that a client reports which keeps its trained model to itself."""
    if task.job is None or task.work.kind is not WorkKind.TRAIN or yielded.vector is None:
        return None
    return float(np.linalg.norm(task.job.base.astype(np.float64) - yielded.vector))


class EndedTask(NamedTuple):
    """Task that ended in a round, with the columns of its row that its result lacks."""

    result: TaskResult
    purpose: Purpose
    waiting_j: float | None = None
    """Joules of waiting for the server after it; None: they are not charged."""
    loss: float | None = None
    staleness: int = 0
    metrics: dict[str, float] | None = None


def task_rows(
    ended: Sequence[EndedTask], fleet: Fleet, *, round_: int, has_frozen: bool = False
) -> list[TaskRow]:
    """Return the table rows of ended tasks; `has_frozen`: the model has frozen weights."""
    results = [each.result for each in ended]
    if not results:
        return []
    tasks = [result.task for result in results]
    requests = [task.request for task in tasks]
    clients = [request.client for request in requests]
    is_delivered = [result.outcome is Outcome.DELIVERED for result in results]
    names = [profile.name for profile in fleet.profiles]
    # By columns: making each row by name takes three times as long.
    columns: dict[str, Sequence[Any]] = {
        name: list(map(attrgetter(name), results)) for name in _OF_RESULT
    }
    energy_j = zip(*(result.energy_j for result in results), strict=True)
    columns |= zip(_ENERGY_COLUMNS, energy_j, strict=True)
    columns |= {
        "task": [task.number for task in tasks],
        "round": [round_] * len(tasks),
        "client": clients,
        "device": [names[index] for index in fleet.device[clients].tolist()],
        "purpose": [each.purpose for each in ended],
        "dispatched_at_s": [task.dispatched_at_s for task in tasks],
        "download_byte": [
            int((result.downloaded_bit - result.frozen_bit) // BIT_PER_BYTE) for result in results
        ],
        "upload_byte": [int(result.uploaded_bit // BIT_PER_BYTE) for result in results],
        "train_flop": [result.flop for result in results],
        "train_loss": [each.loss for each in ended],
        "staleness": [each.staleness for each in ended],
        "belief": [
            request.belief if delivered and isinstance(request, ProbeRequest) else None
            for request, delivered in zip(requests, is_delivered, strict=True)
        ],
        "completed_fraction": [
            result.completed_fraction
            if delivered and isinstance(request, TrainingRequest)
            else None
            for result, request, delivered in zip(results, requests, is_delivered, strict=True)
        ],
        "energy_enlisted_idle_j": [each.waiting_j for each in ended],
        "train_metrics": [each.metrics and json.dumps(each.metrics) for each in ended],
        "frozen_download_byte": [
            int(result.frozen_bit // BIT_PER_BYTE) if has_frozen else None for result in results
        ],
    }
    in_order = (columns[name] for name in TaskRow._fields)
    return [TaskRow(*values) for values in zip(*in_order, strict=True)]


@dataclass(frozen=True, slots=True)
class Span:
    """Time of a round and its use."""

    started_at_s: float
    finished_at_s: float
    idle_s: float
    probe_s: float
    num_eligible: int
    """Number of eligible and idle clients when the server last counted them."""


def battery_levels(world: World, now_s: float) -> dict[str, Any]:
    """Return the columns of a round about live batteries; none without any."""
    batteries = world.fleet.batteries
    if batteries.num_flows == 0 or not batteries.has_any:
        return {}
    mine = np.isfinite(batteries.capacity_j)
    charge = world.idle.charge_at(now_s).take(mine)
    fractions = np.quantile(charge.level_j / batteries.capacity_j[mine], (0.1, 0.5, 0.9))
    columns = (f"battery_{name}_fraction" for name in ("low", "median", "high"))
    levels = dict(zip(columns, fractions.tolist(), strict=True))
    return {"num_off": int(charge.is_off.sum()), **levels}


def round_row(
    rows: Sequence[TaskRow],
    span: Span,
    *,
    round_: int,
    aggregated: bool,
    evaluation: Evaluation | None,
    energy_before_j: float,
    batteries: dict[str, Any],
    validation: Evaluation | None = None,
) -> RoundRow:
    """Return the row of a round from its task rows."""
    train = [row for row in rows if row.purpose is Purpose.TRAIN]
    outcomes = [row.outcome for row in train]
    durations_s = [
        row.finished_at_s - row.dispatched_at_s for row in train if row.outcome is Outcome.DELIVERED
    ]
    energies_j = [row.energy_j for row in rows]
    energy_j = math.fsum(energies_j)
    waited_j = [j for row in rows if (j := row.energy_enlisted_idle_j) is not None]
    num = {outcome: outcomes.count(outcome) for outcome in _SEEN_BY_SERVER}
    return RoundRow(
        round=round_,
        started_at_s=span.started_at_s,
        finished_at_s=span.finished_at_s,
        accuracy=evaluation.accuracy if evaluation else None,
        loss=evaluation.loss if evaluation else None,
        num_eligible=span.num_eligible,
        num_probed=sum(row.purpose is Purpose.PROBE for row in rows),
        num_selected=len(train),
        num_delivered=num[Outcome.DELIVERED],
        num_late=num[Outcome.LATE] + num[Outcome.STALE],
        num_lost=len(train) - sum(num.values()),
        num_cancelled=num[Outcome.CANCELLED],
        aggregated=aggregated,
        idle_s=span.idle_s,
        probe_s=span.probe_s,
        waiting_s=max(durations_s) - min(durations_s) if len(durations_s) > 1 else None,
        energy_j=energy_j,
        energy_probe_j=math.fsum(row.energy_j for row in rows if row.purpose is Purpose.PROBE),
        energy_wasted_j=math.fsum(
            joules
            for row, joules in zip(rows, energies_j, strict=True)
            if row.outcome is not Outcome.DELIVERED
        ),
        energy_total_j=energy_before_j + energy_j,
        num_refused=num[Outcome.REFUSED],
        **batteries,
        energy_enlisted_idle_j=math.fsum(waited_j) if waited_j else None,
        validation_accuracy=validation.accuracy if validation else None,
    )


def check_conserved(world: World, row: RoundRow) -> None:
    """Check that the clients' meters hold the recorded joules, and batteries the rest."""
    metered_j = float(world.energy_j.sum() + world.enlisted_idle_j.sum())
    if not math.isclose(
        metered_j, row.energy_total_j, rel_tol=ROUNDING_SLACK, abs_tol=ROUNDING_SLACK
    ):
        raise SimulationError(
            f"joules are not conserved: {metered_j!r} J metered, {row.energy_total_j!r} J recorded",
            time_s=row.finished_at_s,
        )
    world.check_batteries(row.finished_at_s)
    if row.finished_at_s < row.started_at_s:
        raise SimulationError(
            f"round {row.round} ended before it began, at {row.started_at_s!r} s",
            time_s=row.finished_at_s,
        )


def client_columns(
    world: World, now_s: float, *, charges_enlisted: bool
) -> Iterator[ClientColumns]:
    """Yield the clients table at the end of a run, some clients at a time.

    It has joules of waiting if they are charged.
    """
    fleet = world.fleet
    names = [profile.name for profile in fleet.profiles]
    has_battery = fleet.batteries.has_any
    of_usage, of_network = (
        followed if followed is not None and followed.has_any else None
        for followed in (fleet.usage.followed, fleet.channel.followed)
    )
    for clients in in_blocks(fleet.size):
        balance = world.battery_balance(clients, now_s) if has_battery else {}
        battery_fraction: FloatArray = np.full(clients.size, np.nan)
        if balance:
            battery_fraction = balance["battery_final_j"] / balance["battery_capacity_j"]
        yield ClientColumns(
            client=clients,
            device=tuple(names[index] for index in fleet.device[clients].tolist()),
            num_samples=fleet.num_samples[clients],
            num_selected=world.num_selected[clients],
            num_delivered=world.num_delivered[clients],
            **dict(zip(_ENERGY_COLUMNS, world.energy_j[clients].T, strict=True)),
            battery_fraction=battery_fraction,
            **balance,
            energy_enlisted_idle_j=world.enlisted_idle_j[clients] if charges_enlisted else None,
            usage_record=None if of_usage is None else of_usage.names_of(clients),
            usage_shift_s=None if of_usage is None else of_usage.shifts_of_s(clients),
            network_record=None if of_network is None else of_network.names_of(clients),
            network_shift_s=None if of_network is None else of_network.shifts_of_s(clients),
        )
