"""Shortest tasks of a fleet, beside the server's deadline.

A task takes at least its download, and at least its training and upload: a client that was late may
hold the model already. Both are taken at full speed over the best link, or an infinitely fast one
where rates change. So no client is faster in the run.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray, IntArray, ModelCost, Work, WorkKind
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.population import Fleet, build_fleet
from fleetsim.scenario.settings import Scenario
from fleetsim.units import BIT_PER_BYTE


@dataclass(frozen=True, slots=True)
class TaskSize:
    """Size of the tasks of a scenario: samples of every client, work and bytes of the model."""

    num_samples: IntArray
    """Training samples of every client [N]."""
    owners: tuple[str, ...] | None
    """Name of the natural client that each client is [N]; None: a partition without them."""
    cost: ModelCost
    upload_byte: int


def deadline_fault(scenario: Scenario, size: TaskSize) -> str | None:
    """Build the fleet, and return why no client can meet the deadline, if so."""
    fleet = build_fleet(
        scenario.fleet,
        seed=scenario.clients_seed,
        num_samples=size.num_samples,
        files=scenario.files,
        owners=size.owners,
    )
    return unmet_deadline(scenario, fleet, size.cost, size.upload_byte)


def unmet_deadline(
    scenario: Scenario, fleet: Fleet, cost: ModelCost, upload_byte: int
) -> str | None:
    """Return why no client can meet the deadline, if so."""
    deadline_s, local = scenario.server.deadline_s, scenario.task.local
    if deadline_s is None or local.partial_fraction:
        return None
    work = Work(WorkKind.TRAIN, epochs=local.epochs or 0, steps=local.steps)
    train_s = np.empty(fleet.size)
    for index, profile in enumerate(fleet.profiles):
        rows = fleet.device == index
        train_s[rows] = unloaded_s(
            profile.compute,
            cost,
            work,
            num_samples=fleet.num_samples[rows],
            batching=local.batching,
        )
    train_s /= fleet.unit_speed
    down_s = _least_s(fleet, Direction.DOWN, cost.payload_byte)
    up_s = _least_s(fleet, Direction.UP, upload_byte)
    task_s = np.maximum(down_s, train_s + up_s)
    best = int(task_s.argmin())
    if task_s[best] <= deadline_s:
        return None
    return (
        f"server.deadline_s = {deadline_s:g}: no client can meet it: the fastest, a"
        f" {fleet.profile(best).name}, takes at least {down_s[best]:.3g} s for the download and"
        f" {train_s[best] + up_s[best]:.3g} s for training and upload; raise it, or lower the work"
        " of task.local and task.model"
    )


def _least_s(fleet: Fleet, direction: Direction, num_byte: int) -> FloatArray:
    """Return the seconds of a transfer at the best rate of each client [N]."""
    channel, row = fleet.channel, ROW[direction]
    rate_bit_per_s = np.where(
        np.isnan(channel.fixed_bit_per_s[row]), np.inf, channel.fixed_bit_per_s[row]
    )
    if channel.wifi_bit_per_s is not None:
        rate_bit_per_s = np.maximum(rate_bit_per_s, channel.wifi_bit_per_s[row])
    if channel.multiple is not None:
        rate_bit_per_s = rate_bit_per_s * channel.multiple
    seconds: FloatArray = num_byte * BIT_PER_BYTE / rate_bit_per_s
    return seconds
