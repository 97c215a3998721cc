"""Outcomes and resource use of dispatched tasks, and their revision when they are cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Outcome, Resources, Work
from fleetsim.engine.client_state import ClientState
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.tasks.interruption import PausePolicy
from fleetsim.engine.tasks.phase_segments import Phase, PhaseSegments, Used, comes_after
from fleetsim.engine.tasks.task import Task, TaskResult
from fleetsim.engine.world import World
from fleetsim.fleet.batteries.base import Charge
from fleetsim.fleet.devices.compute import samples_of
from fleetsim.fleet.energy import Component
from fleetsim.fleet.timeline import Timelines
from fleetsim.units import BIT_PER_BYTE

OUTCOMES = tuple(Outcome)
"""Outcomes are kept as indices into these."""
DELIVERED, OFFLINE, BATTERY, LINK, CRASHED, MEMORY = (
    OUTCOMES.index(Outcome[name])
    for name in ("DELIVERED", "OFFLINE", "BATTERY", "LINK", "CRASHED", "MEMORY")
)
_COMPONENT = {
    Phase.DOWNLOAD: Component.RECEIVE,
    Phase.COMPUTE: Component.COMPUTE,
    Phase.UPLOAD: Component.TRANSMIT,
}


@dataclass(frozen=True, slots=True, eq=False)
class SegmentPlan:
    """Segment as planned for some tasks, all [k]."""

    index: int
    rows: IntArray
    timelines: Timelines
    state: ClientState
    """State of their clients before it."""
    radio: IntArray | None
    work: Work | None = None
    """Work that all of them compute; None: they transfer."""
    ends_as: int = DELIVERED
    """Index of the outcome of a task that reaches its end; not `DELIVERED`: the task is lost."""
    whole_s: FloatArray | None = None
    """Seconds of each whole computation on an idle device [k]; None: this is its first segment."""

    def take(self, at: IntArray) -> SegmentPlan:
        """Return the plan for some of the tasks."""
        return replace(
            self,
            rows=self.rows[at],
            timelines=self.timelines.take(at),
            state=self.state.take(at),
            radio=None if self.radio is None else self.radio[at],
            whole_s=None if self.whole_s is None else self.whole_s[at],
        )


class TaskOutcomes:
    """Outcomes of n tasks; rows of arrays are tasks in the order given."""

    def __init__(
        self,
        world: World,
        tasks: Sequence[Task],
        pause_policy: PausePolicy | None,
        *,
        now_s: float,
        deadline_at_s: float,
    ) -> None:
        """Begin tasks, of which those that have not ended at `deadline_at_s` will be cut off."""
        size = len(tasks)
        self.tasks = tasks
        self.deadline_at_s = deadline_at_s
        self.clients = np.array([task.request.client for task in tasks], dtype=np.int64)
        self.end_s = np.full(size, now_s)
        """End of each task, as far as its timeline is known [n]."""
        self.flop = np.zeros(size)
        self.repeated_bit = np.zeros((size, 2))
        """Bits moved in vain by each task, down and up [n, 2]."""
        self.frozen_bit = np.array([float(task.frozen_bit) for task in tasks])
        self.repeated_frozen_bit = np.zeros(size)
        self.completed_fraction = np.ones(size)
        self.weight_fraction = np.ones(size)
        self.resources: dict[int, Resources] = {}
        self.segments = PhaseSegments(size, now_s)
        self._world = world
        self._pause_policy = pause_policy
        self._number = np.array([task.number for task in tasks], dtype=np.int64)
        self._version = np.array([task.version for task in tasks], dtype=np.int64)
        self._outcome = np.full(size, DELIVERED)
        self._priority = priority(Rank.DELIVERY) | self._number
        self._phase = np.zeros(size, dtype=np.int64)
        self._worked_s = np.full(size, now_s)
        """Moment at which each was last at work, of which the last of `_before` is the state."""
        self._before = [world.begin(self.clients, now_s, self._number)]
        """States of the clients before each segment, and after the last."""
        self._plans: list[SegmentPlan] = []
        self._gone_s = world.eligible.gone_after_s(self.clients, now_s)
        self._crash_s = np.full(size, np.inf)
        if world.fleet.crash_per_hour > 0.0:
            self._crash_s[:] = [
                world.fleet.crash_at_s(task.client, now_s, *task.address) for task in tasks
            ]

    @property
    def state(self) -> ClientState:
        """State of the clients after the segments so far [n]."""
        return self._before[-1]

    def lost_at_s(self, rows: IntArray) -> FloatArray:
        """Return when tasks [k] are next lost or interrupted, but for their batteries [k]."""
        lost_s: FloatArray = np.minimum(self._gone_s[rows], self._crash_s[rows])
        return lost_s

    def begin(self, phase: Phase, again: int, rows: IntArray) -> tuple[int, IntArray, ClientState]:
        """Begin a segment of some tasks, after a pause where the owner uses the device.

        Return its index, the tasks that begin it, and their clients; `again` segments came before.
        """
        index = self.segments.open(phase, again)
        if index == len(self._before) - 1:
            self._before.append(self._before[-1].copy())
        state = self._before[index].take(rows)
        if self._pause_policy is None:
            return index, rows, state
        pausing = (self._gone_s[rows] <= self.end_s[rows]) & self._pause_policy.tolerates(
            rows, phase
        )
        at = pausing.nonzero()[0]
        if at.size == 0:
            return index, rows, state
        away, from_s = rows[at], self.end_s[rows[at]]
        until_s, gone_s, is_lost = self._pause_policy.begin(away, phase, from_s)
        # A pause that outlasts the cut-off ends there, where the cut revises it.
        is_cut = until_s > self.deadline_at_s
        until_s = np.where(is_cut, np.nextafter(self.deadline_at_s, np.inf), until_s)
        is_lost = is_lost | is_cut
        rested = state.take(at).rested(from_s, until_s)
        # A phone that ran empty during the pause has lost its task.
        is_empty = ~is_lost & rested.charge.is_off
        is_lost |= is_empty
        # A suspended process cannot crash.
        self._crash_s[away] += until_s - from_s
        self._gone_s[away] = gone_s
        self.end_s[away] = until_s
        last = priority(Rank.LOSS) | self._number[away]
        self.segments.pause(index, away, from_s, until_s, last, is_lost)
        self._outcome[away] = np.where(is_empty, BATTERY, OFFLINE)
        self._priority[away], self._phase[away] = last, phase
        state.put(at, rested)
        begins = np.delete(np.arange(rows.size), at[is_lost])
        return index, rows[begins], state.take(begins)

    def interrupted(self, rows: IntArray) -> IntArray:
        """Return those of some tasks that ended by an interruption."""
        taken: IntArray = rows[self._outcome[rows] == OFFLINE]
        return taken

    def continue_with_next(self, rows: IntArray) -> None:
        """Let interrupted tasks continue with their next phase."""
        self._outcome[rows] = DELIVERED
        self._priority[rows] = priority(Rank.DELIVERY) | self._number[rows]

    # --- ends of segments -------------------------------------------------------------------------

    def carry_out(self, plan: SegmentPlan) -> IntArray:
        """Record a segment up to its end; return the tasks that continue.

        On a tie the first of these ends it: done, offline, crash, battery.
        """
        rows, timelines, state = plan.rows, plan.timelines, plan.state
        end_s = timelines.end_s
        outcome = np.where(timelines.is_complete, plan.ends_as, LINK)
        for loss_s, loss in ((self._gone_s[rows], OFFLINE), (self._crash_s[rows], CRASHED)):
            is_lost = loss_s < end_s
            if is_lost.any():
                end_s, outcome = np.minimum(end_s, loss_s), np.where(is_lost, loss, outcome)
        lasts_too_long = end_s > self.deadline_at_s
        if lasts_too_long.any():  # lost just afterwards, until it is cut off
            end_s = np.where(lasts_too_long, np.nextafter(self.deadline_at_s, np.inf), end_s)
            outcome = np.where(lasts_too_long, LINK, outcome)
        spent_j = timelines.energy_until(end_s)
        charge, empty_s = state.drained(timelines, spent_j, end_s)
        is_empty = empty_s < end_s
        if is_empty.any():
            end_s, outcome = np.minimum(end_s, empty_s), np.where(is_empty, BATTERY, outcome)
            spent_j = timelines.energy_until(end_s)
            charge, _ = state.drained(timelines, spent_j, end_s)
        self._record(plan, end_s, spent_j, charge)
        goes_on = outcome == DELIVERED
        rank = np.where(goes_on, priority(Rank.DELIVERY), priority(Rank.LOSS))
        index = plan.index
        self.segments.is_in[index, rows] = True
        self._priority[rows] = self.segments.priorities[index, rows] = rank | self._number[rows]
        self._outcome[rows], self._phase[rows] = outcome, self.segments.phases[index]
        self._plans.append(plan)
        going_on: IntArray = rows[goes_on]
        return going_on

    def _record(
        self, plan: SegmentPlan, end_s: FloatArray, spent_j: FloatArray, charge: Charge
    ) -> None:
        """Record a segment that ends at `end_s` [k], with the joules of its component."""
        rows, timelines, state = plan.rows, plan.timelines, plan.state
        awake_s = end_s - timelines.start_s
        idle_j = state.idle_w * awake_s
        state.check_drained(charge, spent_j + idle_j, awake_s, end_s)
        after = state.with_charge(
            charge, state.condition_after(plan.work, timelines.start_s, end_s)
        )
        done = timelines.progress_until(end_s)
        index, used = plan.index, self.segments.used
        if plan.radio is not None:
            used[Used.TAIL_J, index, rows] = after.pay_tails(plan.radio, end_s)
        elif plan.work is not None:
            used[Used.SHARE, index, rows] = self._share(plan, done)
            if plan.whole_s is None:
                held = self._world.fleet.samples_for(plan.work)[self.clients[rows]]
                used[Used.NUM_SAMPLES, index, rows] = samples_of(plan.work, held)
        for later in self._before[index + 1 :]:
            later.put(rows, after)
        self.segments.ends_s[index, rows] = self.end_s[rows] = self._worked_s[rows] = end_s
        used[Used.SECONDS, index, rows] = awake_s
        used[Used.DONE, index, rows] = done
        used[Used.SPENT_J, index, rows] = spent_j
        used[Used.IDLE_J, index, rows] = idle_j

    def _share(self, plan: SegmentPlan, done_s: FloatArray) -> FloatArray:
        """Return the share of the whole computations that a segment adds with `done_s` [k]."""
        whole_s = plan.whole_s
        if whole_s is None:
            whole_s = plan.timelines.progress[:, -1]
        elif self._pause_policy is not None:
            done_s = np.maximum(done_s - self._pause_policy.resume_s, 0.0)
        return np.divide(done_s, whole_s, out=np.ones(done_s.size), where=whole_s > 0.0)

    # --- cutting off ------------------------------------------------------------------------------

    def closing(self, enough: int) -> tuple[float, int]:
        """Return (time, priority) of the `enough`-th delivery, or else of the last end."""
        order = np.lexsort((self._priority, self.end_s))
        delivers = order[self._outcome[order] == DELIVERED]
        row = delivers[enough - 1] if delivers.size >= enough else order[-1]
        return float(self.end_s[row]), int(self._priority[row])

    def give_up(self, at_s: float) -> None:
        """Cut off the tasks that have not ended at the server's deadline."""
        self._cut(at_s, Rank.DEADLINE, priority(Rank.DEADLINE), Outcome.LATE)

    def cut(self, at_s: float, after: int, outcome: Outcome) -> None:
        """Cut off the tasks that have not ended at `at_s`, at the event of priority `after`."""
        self._cut(at_s, Rank.STOP, after, outcome)

    def _cut(self, at_s: float, by: Rank, after: int, outcome: Outcome) -> None:
        is_cut = comes_after(self.end_s, self._priority, at_s, after)
        if not is_cut.any():
            return
        under_way = self.segments.under_way(at_s, after)
        for index in range(len(self.segments.phases)):
            self.segments.forget(index, np.flatnonzero(is_cut & (under_way < index)))
        rows = np.flatnonzero(is_cut)
        self._priority[rows] = priority(by) | self._number[rows]
        self.segments.priorities[under_way[rows], rows] = self._priority[rows]
        if self._pause_policy is not None:
            is_paused = self._cut_pauses(is_cut, under_way, at_s)
            under_way = np.where(is_paused, -1, under_way)
        for plan in self._plans:
            at = np.flatnonzero((is_cut & (under_way == plan.index))[plan.rows])
            if at.size:
                self._cut_plan(plan, at, at_s)
        self._outcome[rows] = OUTCOMES.index(outcome)

    def _cut_plan(self, plan: SegmentPlan, at: IntArray, at_s: float) -> None:
        cut = plan.take(at)
        end_s = np.full(at.size, at_s)
        spent_j = cut.timelines.energy_until(end_s)
        charge, _ = cut.state.drained(cut.timelines, spent_j, end_s)
        self._record(cut, end_s, spent_j, charge)
        self._phase[cut.rows] = self.segments.phases[plan.index]

    def _cut_pauses(self, is_cut: BoolArray, under_way: IntArray, at_s: float) -> BoolArray:
        """Cut off the tasks that pause before the segment under way [n]; return which."""
        is_paused = np.zeros_like(is_cut)
        for index, phase in enumerate(self.segments.phases):
            rows = np.flatnonzero(is_cut & (under_way == index))
            rows = rows[self.segments.is_paused(index, rows, at_s)]
            if rows.size:
                is_paused[rows] = True
                self._worked_s[rows] = self.segments.cut_pause(index, rows, at_s)
                self._before[-1].put(rows, self._before[index].take(rows))
                self.end_s[rows], self._phase[rows] = at_s, phase
        return is_paused

    # --- settling ---------------------------------------------------------------------------------

    def is_delivered(self) -> BoolArray:
        """Return which tasks deliver unless they are cut off [n]."""
        delivers: BoolArray = self._outcome == DELIVERED
        return delivers

    def settle(self) -> list[TaskResult]:
        """Charge the ended tasks to the world and return their results, in their order."""
        clients, world, segments = self.clients, self._world, self.segments
        meters_j, energy_j = world.energy_j[clients], np.zeros((clients.size, len(Component)))
        has_begun = np.zeros(clients.size, dtype=np.bool_)
        for index, phase in enumerate(segments.phases):  # in the order of time
            for ledger_j in (meters_j, energy_j):
                ledger_j[:, _COMPONENT[phase]] += segments.used[Used.SPENT_J, index]
                ledger_j[:, Component.IDLE] += segments.used[Used.IDLE_J, index]
                ledger_j[:, Component.TAIL] += segments.used[Used.TAIL_J, index]
            if phase == Phase.DOWNLOAD:
                has_begun |= segments.is_in[index]
        world.energy_j[clients] = meters_j
        has_model = has_begun & ((self._phase > Phase.DOWNLOAD) | self.is_delivered())
        is_short = self._outcome == MEMORY
        world.settle(clients, self._before[-1], self._worked_s, is_short.nonzero()[0])
        world.held_version[clients[has_model]] = self._version[has_model]
        frozen_bit = self._kept_frozen_bit()
        world.frozen_left_byte[clients] -= (frozen_bit // BIT_PER_BYTE).astype(np.int64)
        return self._results(energy_j, frozen_bit + self.repeated_frozen_bit)

    def _kept_frozen_bit(self) -> FloatArray:
        """Return the bits of frozen weights that each client has got, in whole bytes [n]."""
        kept_bit = self.segments.by_phase(Used.DONE)[0] - self.repeated_bit[:, 0]
        whole_bit: FloatArray = np.floor(kept_bit / BIT_PER_BYTE) * BIT_PER_BYTE
        kept: FloatArray = np.minimum(whole_bit, self.frozen_bit)
        return kept

    def _results(self, energy_j: FloatArray, frozen_bit: FloatArray) -> list[TaskResult]:
        segments = self.segments
        download_s, compute_s, upload_s = segments.by_phase(Used.SECONDS).tolist()
        downloaded_bit, _, uploaded_bit = segments.by_phase(Used.DONE).tolist()
        columns = (
            self.tasks,
            [OUTCOMES[code] for code in self._outcome.tolist()],
            self.end_s.tolist(),
            download_s,
            compute_s,
            upload_s,
            downloaded_bit,
            uploaded_bit,
            map(tuple, energy_j.tolist()),
            (self.flop * segments.total(Used.SHARE)).tolist(),
            segments.total(Used.NUM_SAMPLES).astype(np.int64).tolist(),
            map(tuple, self.repeated_bit.tolist()),
            frozen_bit.tolist(),
            self.completed_fraction.tolist(),
            self.weight_fraction.tolist(),
            segments.num_pauses().tolist(),
            segments.total(Used.PAUSED_S).tolist(),
            [self.resources.get(row) for row in range(len(self.tasks))],
        )
        return [TaskResult(*values) for values in zip(*columns, strict=True)]
