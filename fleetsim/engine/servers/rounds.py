"""What a round's tasks add up to: reports for the selector, a row for the record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fleetsim.contracts import (
    ClientColumns,
    Evaluation,
    FloatArray,
    JobResult,
    Outcome,
    Purpose,
    Report,
    RoundRow,
    TaskRow,
    WorkKind,
)
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.world import World
from fleetsim.errors import SimulationError
from fleetsim.fleet.batteries.base import Flow
from fleetsim.fleet.energy import Component
from fleetsim.fleet.population import Fleet
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.units import BIT_PER_BYTE

_SHOWN_QUANTILES = (0.1, 0.5, 0.9)
_SEEN_BY_SERVER = (
    Outcome.DELIVERED,
    Outcome.LATE,
    Outcome.CANCELLED,
    Outcome.STALE,
    Outcome.REFUSED,
)


def report_of(task: Task, result: JobResult | None, *, staleness: int = 0) -> Report:
    """What the server learns of an ended task; every cause of a lost client looks the same."""
    assert task.outcome is not None
    is_delivered = task.outcome is Outcome.DELIVERED
    return Report(
        client=task.client,
        purpose=task.purpose,
        outcome=task.outcome if task.outcome in _SEEN_BY_SERVER else Outcome.OFFLINE,
        dispatched_at_s=task.dispatched_at_s,
        finished_at_s=task.finished_at_s,
        num_samples=task.num_samples,
        download_s=task.download_s if is_delivered else 0.0,
        compute_s=task.compute_s if is_delivered else 0.0,
        upload_s=task.upload_s if is_delivered else 0.0,
        loss=result.loss if result else None,
        loss_rms=result.loss_rms if result else None,
        accuracy=result.accuracy if result else None,
        vector=result.vector if result and task.uploads_vector else None,
        update_norm=_update_norm(task, result),
        energy_j=math.fsum(task.energy_j) if is_delivered else None,
        resources=task.resources if is_delivered else None,
        base=task.job.base if task.job and task.purpose is Purpose.TRAIN else None,
        refused=task.refused,
        staleness=staleness,
        completed_fraction=task.completed_fraction if is_delivered else 1.0,
        weight_fraction=task.weight_fraction if is_delivered else 1.0,
        epoch_losses=result.epoch_losses if result else None,
        weight=task.weight,
        is_share=task.is_share,
    )


def _update_norm(task: Task, result: JobResult | None) -> float | None:
    """How far a client that keeps its trained model to itself says that it has moved."""
    if task.job is None or task.work.kind is not WorkKind.TRAIN or task.uploads_vector:
        return None
    if result is None or result.vector is None:
        return None
    return float(np.linalg.norm(task.job.base.astype(np.float64) - result.vector))


def refused_probe(client: int, now_s: float) -> Report:
    """Report of a probe that was never sent, because the client is not there."""
    return Report(
        client=client,
        purpose=Purpose.PROBE,
        outcome=Outcome.OFFLINE,
        dispatched_at_s=now_s,
        finished_at_s=now_s,
        num_samples=0,
    )


def task_rows(
    tasks: Sequence[Task],
    fleet: Fleet,
    *,
    train_losses: Sequence[float | None],
    staleness: Sequence[int],
) -> list[TaskRow]:
    """The records of ended tasks; what is known of each beside it stands in their order."""
    if not tasks:
        return []
    names = [profile.name for profile in fleet.profiles]
    clients = [task.client for task in tasks]
    compute_j, receive_j, transmit_j, tail_j, idle_j = zip(
        *(task.energy_j for task in tasks), strict=True
    )
    # Made column by column: a hundred records by name take three times as long.
    columns: dict[str, Sequence[Any]] = {
        "task": [task.task for task in tasks],
        "round": [task.round for task in tasks],
        "client": clients,
        "device": [names[index] for index in fleet.device[clients].tolist()],
        "purpose": [task.purpose for task in tasks],
        "dispatched_at_s": [task.dispatched_at_s for task in tasks],
        "download_s": [task.download_s for task in tasks],
        "compute_s": [task.compute_s for task in tasks],
        "upload_s": [task.upload_s for task in tasks],
        "finished_at_s": [task.finished_at_s for task in tasks],
        "outcome": [task.outcome for task in tasks],
        "energy_compute_j": compute_j,
        "energy_receive_j": receive_j,
        "energy_transmit_j": transmit_j,
        "energy_tail_j": tail_j,
        "energy_idle_j": idle_j,
        "download_byte": [int(task.downloaded_bit // BIT_PER_BYTE) for task in tasks],
        "upload_byte": [int(task.uploaded_bit // BIT_PER_BYTE) for task in tasks],
        "train_flop": [task.flop for task in tasks],
        "num_samples": [task.num_samples for task in tasks],
        "train_loss": train_losses,
        "staleness": staleness,
        "refused": [task.refused for task in tasks],
        "completed_fraction": [task.reported_fraction for task in tasks],
        "num_pauses": [task.num_pauses for task in tasks],
        "paused_s": [task.paused_s for task in tasks],
        "opinion": [task.opinion for task in tasks],
        "belief": [task.belief for task in tasks],
        "energy_enlisted_idle_j": [task.enlisted_idle_j for task in tasks],
    }
    in_order = (columns[name] for name in TaskRow._fields)
    return [TaskRow(*values) for values in zip(*in_order, strict=True)]


@dataclass(frozen=True, slots=True)
class Span:
    """When a round took place, and how its time went by."""

    started_at_s: float
    finished_at_s: float
    idle_s: float
    """Waiting for enough eligible clients."""
    probe_s: float
    num_eligible: int
    """Eligible and idle clients when the server last looked."""


class BatteryLevels(NamedTuple):
    """What the fleet's batteries hold at the end of a round; the columns of a round's row."""

    num_off: int
    battery_low_fraction: float
    battery_median_fraction: float
    battery_high_fraction: float


def battery_levels(world: World, now_s: float) -> BatteryLevels | None:
    """What the fleet's batteries hold; None unless they live, and where nobody has one."""
    batteries = world.fleet.batteries
    if batteries.num_flows == 0 or not batteries.has_any:
        return None
    mine = np.isfinite(batteries.capacity_j)
    charge = world.charge_at(now_s).take(mine)
    fractions = np.quantile(charge.level_j / batteries.capacity_j[mine], _SHOWN_QUANTILES)
    return BatteryLevels(int(charge.is_off.sum()), *fractions.tolist())


def round_row(
    rows: Sequence[TaskRow],
    span: Span,
    *,
    round_: int,
    aggregated: bool,
    evaluation: Evaluation | None,
    energy_before_j: float,
    batteries: BatteryLevels | None,
) -> RoundRow:
    """Sum up the task rows of a round."""
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
        num_probed=len(rows) - len(train),
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
        **({} if batteries is None else batteries._asdict()),
        energy_enlisted_idle_j=math.fsum(waited_j) if waited_j else None,
    )


def check_conserved(world: World, row: RoundRow) -> None:
    """The clients' meters must hold what the records say was spent, and batteries what is left.

    Raises:
        SimulationError: they differ, or the round ended before it began.
    """
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


def check_bytes(task: Task) -> None:
    """A delivered task must have moved exactly what was to be moved.

    Raises:
        SimulationError: bits got lost or appeared.
    """
    moved = (task.downloaded_bit, task.uploaded_bit)
    again_down, again_up = task.again_bit
    due = (task.download_bit + again_down, task.upload_bit + again_up)
    if task.outcome is Outcome.DELIVERED and moved != due:
        raise SimulationError(
            f"moved {moved} bit down and up instead of {due}",
            time_s=task.finished_at_s,
            client=task.client,
            task=task.task,
        )


def client_columns(world: World, now_s: float, *, charges_enlisted: bool) -> ClientColumns:
    """The clients table at the end of a run; with what waiting took, where it is charged."""
    fleet = world.fleet
    names = [profile.name for profile in fleet.profiles]
    charge = world.charge_at(now_s)
    final_j, capacity_j = charge.level_j, fleet.batteries.capacity_j
    balance: dict[str, FloatArray] = {}
    if fleet.batteries.num_flows:
        flows_j = np.where(np.isnan(capacity_j)[:, np.newaxis], np.nan, charge.flows_j)
        balance = {
            "battery_capacity_j": capacity_j,
            "battery_initial_j": fleet.initial_j,
            "battery_charged_j": flows_j[:, Flow.CHARGED],
            "battery_owner_j": flows_j[:, Flow.OWNER],
            "battery_loss_j": flows_j[:, Flow.LOSS],
            "battery_final_j": final_j,
        }
    return ClientColumns(
        client=np.arange(fleet.size, dtype=np.int64),
        device=tuple(names[index] for index in fleet.device.tolist()),
        num_samples=fleet.num_samples,
        num_selected=world.num_selected,
        num_delivered=world.num_delivered,
        energy_compute_j=world.energy_j[:, Component.COMPUTE],
        energy_receive_j=world.energy_j[:, Component.RECEIVE],
        energy_transmit_j=world.energy_j[:, Component.TRANSMIT],
        energy_tail_j=world.energy_j[:, Component.TAIL],
        energy_idle_j=world.energy_j[:, Component.IDLE],
        battery_fraction=final_j / capacity_j,
        **balance,
        energy_enlisted_idle_j=world.enlisted_idle_j if charges_enlisted else None,
    )
