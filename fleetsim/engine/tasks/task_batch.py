"""Timelines of tasks dispatched at the same instant.

```
dispatched --> download --> compute --> upload --> DELIVERED
                  |            |           |
                  |            +-----------|--> MEMORY    a step does not fit into the device
                  +------------+-----------+--> OFFLINE   the owner takes the device away
                                           +--> BATTERY   the battery meets its cut-off
                                           +--> LINK      a transfer is given up, or an upload lost
                                           +--> CRASHED   the process dies
                                           +--> LATE, CANCELLED   the server cuts it off
```
Clients do not influence each other and the world is a pure function of time, so a task's whole
timeline (download, compute, upload) is computed at dispatch. The server may cut it short later, at
a deadline or when the cohort is complete. An interrupted task may resume (`interruption`): its
remaining work becomes another segment, starting when the client returns. Joules and bytes are
charged when a task ends (`settle`), for failed tasks too. Ties follow `event_order`.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fleetsim.contracts import (
    BoolArray,
    FloatArray,
    IntArray,
    Job,
    ModelCost,
    Resources,
    Work,
    WorkKind,
)
from fleetsim.counts import Batching
from fleetsim.engine.client_state import ClientState
from fleetsim.engine.tasks.interruption import (
    InterruptionSettings,
    LoseSettings,
    PartialSettings,
    PausePolicy,
)
from fleetsim.engine.tasks.phase_segments import Phase, Used
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.tasks.task_outcomes import DELIVERED, MEMORY, SegmentPlan, TaskOutcomes
from fleetsim.engine.world import World
from fleetsim.fleet.devices.compute import num_steps, work_flop
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.timeline import Timelines
from fleetsim.units import BIT_PER_BYTE

_NONE = np.empty(0, dtype=np.int64)
_LaidOut = list[tuple[IntArray, Timelines]]
"""Pairs of rows and the timelines of their transfers, from `Channel.transfers`."""


class TaskBatch(TaskOutcomes):
    """Timelines of n tasks from their dispatch to their end."""

    def __init__(
        self,
        world: World,
        tasks: Sequence[Task],
        *,
        now_s: float,
        cost: ModelCost,
        batching: Batching,
        interruption: InterruptionSettings,
        deadline_at_s: float,
    ) -> None:
        """Compute the timelines, none of which goes beyond `deadline_at_s` until it is cut off."""
        policy = None
        if not isinstance(interruption, LoseSettings):
            clients = np.array([task.client for task in tasks], dtype=np.int64)
            policy = PausePolicy(interruption, world.eligible.absences(clients, now_s), tasks)
        super().__init__(world, tasks, policy, now_s=now_s, deadline_at_s=deadline_at_s)
        self._cost, self._batching = cost, batching
        self._arrives: BoolArray | None = None
        """Uploads that arrive if they are not cut off [n]; None: all."""
        if (arrivals := world.fleet.channel.arrivals) is not None:
            self._arrives = arrivals.of(self.clients, [task.address for task in tasks])
        self._most_steps: dict[int, int] = {}
        """Whole steps of trainings that are handed in in part, by row."""
        rows = np.arange(len(tasks))
        rows = self._transfer(Phase.DOWNLOAD, rows, [task.download_bit for task in tasks])
        rows = self._compute(rows)
        self._ask_resources(rows)
        self._transfer(Phase.UPLOAD, rows, [task.upload_bit for task in tasks])

    # --- timelines --------------------------------------------------------------------------------

    def _transfer(self, phase: Phase, rows: IntArray, bits: Sequence[int]) -> IntArray:
        bit = np.array(bits, dtype=np.float64)
        side = 0 if phase == Phase.DOWNLOAD else 1
        more_round_trips = np.array([task.more_round_trips[side] for task in self.tasks])
        moving = rows[bit[rows] > 0.0]
        stays = [] if moving.size == rows.size else [rows[bit[rows] == 0.0]]
        for again in itertools.count():
            if moving.size == 0:
                break
            index, moving, state = self.begin(phase, again, moving)
            if moving.size:
                more = more_round_trips[moving] if again == 0 else None
                stays += self._move(index, moving, state, bit[moving], more)
            moving = self._surviving(phase, moving)
            if moving.size:
                self._keep_bits(index, moving, bit)
        return _in_order(stays)

    def _move(
        self,
        index: int,
        moving: IntArray,
        state: ClientState,
        bit: FloatArray,
        more_round_trips: IntArray | None,
    ) -> list[IntArray]:
        """Compute a segment of transfers [k]; return the tasks that continue after it."""
        fleet, phase = self._world.fleet, self.segments.phases[index]
        clients, start_s = self.clients[moving], self.end_s[moving]
        direction = Direction.DOWN if phase == Phase.DOWNLOAD else Direction.UP
        radio = fleet.radios_at(clients, start_s)
        is_asleep = state.is_asleep(radio, start_s)

        def lay_out(lost_at_s: FloatArray) -> _LaidOut:
            laid_out = fleet.access.transfers(
                clients, direction, start_s, bit, radio, is_asleep, lost_at_s, more_round_trips
            )
            return [
                (at, state.take(at).after_paid_tails(timelines, radio[at]))
                for at, timelines in laid_out
            ]

        stays = []
        for at, laid_out in _until_lost(lay_out, state, self.lost_at_s(moving)):
            timelines = laid_out
            if phase == Phase.UPLOAD and self._arrives is not None:
                is_complete = laid_out.is_complete & self._arrives[moving[at]]
                timelines = replace(laid_out, is_complete=is_complete)
            plan = SegmentPlan(index, moving[at], timelines, state.take(at), radio[at])
            stays.append(self.carry_out(plan))
        return stays

    def _compute(self, rows: IntArray) -> IntArray:
        works = [self.tasks[row].work for row in rows.tolist()]
        stays = []
        # Mostly one object for all tasks: comparing ids is faster than comparing records.
        for work in dict.fromkeys({id(work): work for work in works}.values()):
            same = rows[np.array([other is work or other == work for other in works])]
            if work.kind is WorkKind.NONE:
                stays.append(same)
                continue
            if _takes_steps(work):
                # Checked once, at the begin: the system does not take memory from running training.
                dies = self._world.eligible.dies_of_memory(self.clients[same], self.end_s[same])
                # A device without memory for a step gets through one batch's forward pass.
                first_batch = Work(
                    WorkKind.EVALUATE,
                    num_samples=self._batching.size,
                    clock_fraction=work.clock_fraction,
                )
                self._work(same[dies], first_batch, ends_as=MEMORY)
                same = same[~dies]
            stays += self._work(same, work)
        return _in_order(stays)

    def _work(self, rows: IntArray, work: Work, *, ends_as: int = DELIVERED) -> list[IntArray]:
        """Compute the timelines of one work of these tasks; return those that continue after it."""
        fleet, pause_policy = self._world.fleet, self._pause_policy
        held = fleet.samples_for(work)[self.clients[rows]]
        self.flop[rows] = work_flop(self._cost, work, num_samples=held, batching=self._batching)
        stays: list[IntArray] = []
        rest_s = whole_s = np.zeros(len(self.tasks))
        for again in itertools.count():
            if rows.size == 0:
                break
            index, rows, state = self.begin(Phase.COMPUTE, again, rows)
            if rows.size == 0:
                break
            has_begun = again > 0
            resume_s = pause_policy.resume_s if has_begun and pause_policy is not None else 0.0
            timelines = fleet.computations(
                self.clients[rows],
                self.end_s[rows],
                state.condition,
                self._cost,
                work,
                self._batching,
                left_s=rest_s[rows] + resume_s if has_begun else None,
                matters_until_s=np.minimum(self.lost_at_s(rows), self.deadline_at_s),
            )
            of_whole_s = whole_s[rows] if has_begun else None
            stays.append(
                self.carry_out(
                    SegmentPlan(index, rows, timelines, state, None, work, ends_as, of_whole_s)
                )
            )
            if pause_policy is None:
                break
            if not has_begun:
                whole_s[rows] = timelines.progress[:, -1]
                rest_s = whole_s.copy()
                if ends_as == DELIVERED:
                    stays.append(self._hand_in(index, self.interrupted(rows), work))
            rows = self._surviving(Phase.COMPUTE, rows)
            done_s = np.maximum(self.segments.used[Used.DONE, index, rows] - resume_s, 0.0)
            rest_s[rows] = np.maximum(rest_s[rows] - done_s, 0.0)
        return stays

    def _ask_resources(self, rows: IntArray) -> None:
        fleet = self._world.fleet
        for row in rows.tolist():
            if not self.tasks[row].asks_resources:
                continue
            client, now_s = self.tasks[row].client, float(self.end_s[row])
            state = fleet.usage.state_at_one(client, now_s)
            epoch_s = fleet.epoch_s(client, self._cost, self._batching)
            num_used = self._batching.num_used(int(fleet.num_samples[client]))
            level_j = float(self.state.charge.level_j[row])
            capacity_j = float(fleet.batteries.capacity_j[client])
            self.resources[row] = Resources(
                flop_per_s=fleet.conv_flop_per_s(client),
                ram_byte=fleet.profile(client).ram_byte,
                load_fraction=state.load,
                is_charging=state.charging,
                is_unmetered=state.unmetered,
                battery_fraction=None if np.isnan(level_j) else level_j / capacity_j,
                samples_per_s=(1.0 - state.load) * num_used / epoch_s,
                down_bit_per_s=fleet.rate_at(client, Direction.DOWN, now_s),
                up_bit_per_s=fleet.rate_at(client, Direction.UP, now_s),
                free_ram_byte=None
                if fleet.memory is None
                else float(fleet.memory.free_byte[client]),
            )

    # --- interruptions ----------------------------------------------------------------------------

    def _surviving(self, phase: Phase, rows: IntArray) -> IntArray:
        if self._pause_policy is None:
            return _NONE
        taken = self.interrupted(rows)
        return taken[self._pause_policy.tolerates(taken, phase)]

    def _keep_bits(self, index: int, rows: IntArray, bit: FloatArray) -> None:
        """Deduct from `bit` [n] what interrupted transfers [k] need not move again."""
        assert self._pause_policy is not None
        done = self.segments.used[Used.DONE, index]
        # Whole bytes only, and never the last one, or nothing would be left.
        moved = np.floor(done[rows] / BIT_PER_BYTE) * BIT_PER_BYTE
        done[rows] = moved = np.minimum(moved, bit[rows] - BIT_PER_BYTE)
        if self._pause_policy.settings.transfers == "resume":
            bit[rows] -= moved
            return
        is_down = self.segments.phases[index] == Phase.DOWNLOAD
        self.repeated_bit[rows, 0 if is_down else 1] += moved
        if is_down:
            self.repeated_frozen_bit[rows] += np.minimum(moved, self.frozen_bit[rows])

    def _hand_in(self, index: int, rows: IntArray, work: Work) -> IntArray:
        """Return those of interrupted trainings whose completed steps are to be uploaded."""
        assert self._pause_policy is not None
        settings, rows = self._pause_policy.settings, rows[self._pause_policy.hands_in_part[rows]]
        if rows.size == 0 or not isinstance(settings, PartialSettings):
            return _NONE
        fleet, clients = self._world.fleet, self.clients[rows]
        share = self.segments.used[Used.SHARE, index, rows]
        steps = fleet.steps_done(clients, self._cost, work, self._batching, share)
        num_samples = fleet.num_samples[clients]
        # The answer includes the training of a continued probe.
        before = np.array([self.tasks[row].epochs_before for row in rows.tolist()], dtype=np.int64)
        before *= self._batching.num_batches(num_samples)
        made = before + steps
        part = made / (before + num_steps(work, num_samples, self._batching))
        is_enough = (made >= 1) & (part >= settings.min_fraction)
        rows, part = rows[is_enough], part[is_enough]
        self.completed_fraction[rows] = part
        if settings.weight == "processed":
            self.weight_fraction[rows] = part
        self._most_steps |= dict(zip(rows.tolist(), made[is_enough].tolist(), strict=True))
        self.continue_with_next(rows)
        return rows

    def jobs(self) -> list[tuple[Task, Job]]:
        """Return the tasks that deliver, unless they are cut off, and compute, with their jobs."""
        most_steps, delivers = self._most_steps, self.is_delivered().tolist()
        return [
            (task, task.job._replace(most_steps=most_steps[row]) if row in most_steps else task.job)
            for row, task in enumerate(self.tasks)
            if task.job is not None and delivers[row]
        ]


def _until_lost(
    lay_out: Callable[[FloatArray], _LaidOut], state: ClientState, lost_at_s: FloatArray
) -> _LaidOut:
    """Return the transfers of n tasks in which a client holds its share only until it is lost.

    `lay_out` gives the transfers for the moments at which clients are lost [n]. They are lost at
    `lost_at_s` [n], or inf, but for their batteries, whose state is that before the transfers.

    A lost client leaves its share to the others, which finish sooner, or draw more power and reach
    their cut-off level sooner. So the moment of a loss depends on earlier losses, but never on
    later ones: given all losses up to a moment, the first battery that meets its cut-off level
    afterwards does so at the right time. This needs one timeline per battery that fails, plus one.
    """
    while True:
        laid_out = lay_out(lost_at_s)
        if state.fleet.links is None or not state.fleet.batteries.has_any:
            return laid_out
        empty_s = np.full(lost_at_s.size, np.inf)
        for at, timelines in laid_out:
            end_s = np.minimum(timelines.end_s, lost_at_s[at])
            spent_j = timelines.energy_until(end_s)
            at_risk = (~state.take(at).is_safe(timelines, spent_j, end_s)).nonzero()[0]
            rows, end_s = at[at_risk], end_s[at_risk]
            _, met_s = state.take(rows).drained(timelines.take(at_risk), spent_j[at_risk], end_s)
            empty_s[rows] = np.where(met_s < end_s, met_s, np.inf)
        first_s = empty_s.min()
        if first_s == np.inf:
            return laid_out
        lost_at_s = np.where(empty_s == first_s, first_s, lost_at_s)


def _takes_steps(work: Work) -> bool:
    """Return whether work has a backward pass, for which activations are kept."""
    is_training = work.kind is WorkKind.TRAIN and (work.epochs > 0 or work.steps is not None)
    return is_training or work.kind is WorkKind.GRADIENT


def _in_order(parts: Sequence[IntArray]) -> IntArray:
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate([_NONE, *parts]))
