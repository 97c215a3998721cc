"""What ends the legs of tasks, what they have used by then, and what is taken back by a cut.

The books of a course (`course`), which lays the legs out. Nothing is charged to the world before
`settle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Outcome, Work
from fleetsim.engine.client_state import Standing
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.tasks.interruption import Waiting
from fleetsim.engine.tasks.phase_segments import Legs, Stage, Used, comes_after
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.world import World
from fleetsim.fleet.batteries.base import Charge
from fleetsim.fleet.devices.compute import samples_of
from fleetsim.fleet.energy import Component
from fleetsim.fleet.timeline import Timelines

OUTCOMES = tuple(Outcome)
"""Outcomes are kept as indices into these."""
DELIVERED, OFFLINE, BATTERY, LINK, CRASHED, MEMORY = (
    OUTCOMES.index(outcome)
    for outcome in (
        Outcome.DELIVERED,
        Outcome.OFFLINE,
        Outcome.BATTERY,
        Outcome.LINK,
        Outcome.CRASHED,
        Outcome.MEMORY,
    )
)
_COMPONENT = {
    Stage.DOWNLOAD: Component.RECEIVE,
    Stage.COMPUTE: Component.COMPUTE,
    Stage.UPLOAD: Component.TRANSMIT,
}


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """A leg that several tasks live through."""

    leg: int
    rows: IntArray
    """Which tasks [k]."""
    timelines: Timelines
    standing: Standing
    """How their clients stand before it [k]."""
    radio: IntArray | None
    """Radio of each transfer [k]."""
    work: Work | None = None
    """What they compute, all the same; None: they transfer."""
    ends_as: int = DELIVERED
    """Index of the outcome of a task that comes to the phase's end; not `DELIVERED`: it dies."""
    whole_s: FloatArray | None = None
    """Unloaded seconds of each whole computation [k]; None: this is its first leg."""

    def take(self, at: IntArray) -> Phase:
        """The same for some of the tasks."""
        return Phase(
            self.leg,
            self.rows[at],
            self.timelines.take(at),
            self.standing.take(at),
            None if self.radio is None else self.radio[at],
            self.work,
            self.ends_as,
            None if self.whole_s is None else self.whole_s[at],
        )


class Lives:
    """n tasks from their dispatch to their end; rows of arrays are tasks in the order given."""

    def __init__(
        self,
        world: World,
        tasks: Sequence[Task],
        waiting: Waiting | None,
        *,
        now_s: float,
        cut_at_s: float = np.inf,
    ) -> None:
        """Tasks begin, and what has not ended at `cut_at_s` will be cut off.

        Raises:
            SimulationError: a client is in a task already.
        """
        size = len(tasks)
        self.tasks = tasks
        self.cut_at_s = cut_at_s
        """When whatever has not ended will be cut off; nothing is laid out beyond it."""
        self.clients = np.array([task.client for task in tasks], dtype=np.int64)
        self.end_s = np.full(size, now_s)
        """When each task ends, as far as it is laid out [n]."""
        self.flop = np.zeros(size)
        """Of each whole computation [n]."""
        self.legs = Legs(size, now_s)
        self._world = world
        self._waiting = waiting
        self._number = np.array([task.task for task in tasks], dtype=np.int64)
        self._version = np.array([task.version for task in tasks], dtype=np.int64)
        self._outcome = np.full(size, DELIVERED)
        self._priority = priority(Rank.DELIVERY) | self._number
        self._stage = np.zeros(size, dtype=np.int64)
        """In which each task ends."""
        self._worked_s = np.full(size, now_s)
        """When each was last at work; then its client stood as `_before` says last."""
        self._before = [world.begin(self.clients, now_s, self._number)]
        """How the clients stand before each leg, and after the last."""
        self._phases: list[Phase] = []
        self._gone_s = world.gone_after_s(self.clients, now_s)
        self._crash_s = np.full(size, np.inf)
        if world.fleet.crash_per_hour > 0.0:
            self._crash_s[:] = [
                world.fleet.crash_at_s(task.client, now_s, *task.address) for task in tasks
            ]

    @property
    def standing(self) -> Standing:
        """How the clients stand after what is laid out [n]."""
        return self._before[-1]

    def lost_at_s(self, rows: IntArray) -> FloatArray:
        """When tasks [k] are next lost or interrupted, other than by their batteries [k]."""
        lost_s: FloatArray = np.minimum(self._gone_s[rows], self._crash_s[rows])
        return lost_s

    def begin(self, stage: Stage, again: int, rows: IntArray) -> tuple[int, IntArray, Standing]:
        """A leg of some tasks, whose owners may have to give them back first.

        Args:
            stage: of which stage.
            again: legs of this stage that the tasks have behind them.
            rows: which tasks.

        Returns:
            (the leg, the tasks that begin it, how they stand then).
        """
        leg = self.legs.open(stage, again)
        if leg == len(self._before) - 1:
            self._before.append(self._before[-1].copy())
        standing = self._before[leg].take(rows)
        if self._waiting is None:
            return leg, rows, standing
        waits = (self._gone_s[rows] <= self.end_s[rows]) & self._waiting.bears(rows, stage)
        at = waits.nonzero()[0]
        if at.size == 0:
            return leg, rows, standing
        away, from_s = rows[at], self.end_s[rows[at]]
        until_s, gone_s, is_lost = self._waiting.begin(away, stage, from_s)
        # A wait that outlasts the cut-off ends there, where the cut revises it.
        is_cut = until_s > self.cut_at_s
        until_s = np.where(is_cut, np.nextafter(self.cut_at_s, np.inf), until_s)
        is_lost = is_lost | is_cut
        rested = standing.take(at).rested(from_s, until_s)
        # A phone that ran empty meanwhile has forgotten its task.
        is_empty = ~is_lost & rested.is_off
        is_lost |= is_empty
        # A process that does not run does not die.
        self._crash_s[away] += until_s - from_s
        self._gone_s[away] = gone_s
        self.end_s[away] = until_s
        last = priority(Rank.LOSS) | self._number[away]
        self.legs.wait(leg, away, from_s, until_s, last, is_lost)
        self._outcome[away] = np.where(is_empty, BATTERY, OFFLINE)
        self._priority[away], self._stage[away] = last, stage
        standing.put(at, rested)
        begins = np.delete(np.arange(rows.size), at[is_lost])
        return leg, rows[begins], standing.take(begins)

    def taken_away(self, rows: IntArray) -> IntArray:
        """Those of some tasks that have ended because their owners took the devices away."""
        taken: IntArray = rows[self._outcome[rows] == OFFLINE]
        return taken

    def go_on(self, rows: IntArray) -> None:
        """Tasks that were taken away have done what they had to."""
        self._outcome[rows] = DELIVERED
        self._priority[rows] = priority(Rank.DELIVERY) | self._number[rows]

    # --- keeping the books ------------------------------------------------------------------------

    def live(self, phase: Phase) -> IntArray:
        """Put a phase on the books up to whatever ends it; returns the tasks that go on.

        On a tie the first of these ends it: done, offline, crash, battery.
        """
        rows, timelines, standing = phase.rows, phase.timelines, phase.standing
        end_s = timelines.end_s
        outcome = np.where(timelines.is_complete, phase.ends_as, LINK)
        for loss_s, loss in ((self._gone_s[rows], OFFLINE), (self._crash_s[rows], CRASHED)):
            is_lost = loss_s < end_s
            if is_lost.any():
                end_s, outcome = np.minimum(end_s, loss_s), np.where(is_lost, loss, outcome)
        lasts_too_long = end_s > self.cut_at_s
        if lasts_too_long.any():  # lost just afterwards, as far as anybody will see
            end_s = np.where(lasts_too_long, np.nextafter(self.cut_at_s, np.inf), end_s)
            outcome = np.where(lasts_too_long, LINK, outcome)
        spent_j = timelines.energy_until(end_s)
        charge, empty_s = standing.drained(timelines, spent_j, end_s)
        is_empty = empty_s < end_s
        if is_empty.any():
            end_s, outcome = np.minimum(end_s, empty_s), np.where(is_empty, BATTERY, outcome)
            spent_j = timelines.energy_until(end_s)
            charge, _ = standing.drained(timelines, spent_j, end_s)
        self._book(phase, end_s, spent_j, charge)
        goes_on = outcome == DELIVERED
        rank = np.where(goes_on, priority(Rank.DELIVERY), priority(Rank.LOSS))
        leg = phase.leg
        self.legs.is_in[leg, rows] = True
        self._priority[rows] = self.legs.priorities[leg, rows] = rank | self._number[rows]
        self._outcome[rows], self._stage[rows] = outcome, self.legs.stages[leg]
        self._phases.append(phase)
        going_on: IntArray = rows[goes_on]
        return going_on

    def _book(self, phase: Phase, end_s: FloatArray, spent_j: FloatArray, charge: Charge) -> None:
        """Book a phase that ends at `end_s` [k], with the joules of its component until then."""
        rows, timelines, standing = phase.rows, phase.timelines, phase.standing
        awake_s = end_s - timelines.start_s
        idle_j = standing.idle_w * awake_s
        standing.check_drained(charge, spent_j + idle_j, awake_s, end_s)
        after = standing.with_charge(
            charge, standing.condition_after(phase.work, timelines.start_s, end_s)
        )
        done = timelines.progress_until(end_s)
        leg, used = phase.leg, self.legs.used
        if phase.radio is not None:
            used[Used.TAIL_J, leg, rows] = after.pay_tails(phase.radio, end_s)
        elif phase.work is not None:
            used[Used.SHARE, leg, rows] = self._share(phase, done)
            if phase.whole_s is None:
                held = self._world.fleet.samples_for(phase.work)[self.clients[rows]]
                used[Used.NUM_SAMPLES, leg, rows] = samples_of(phase.work, held)
        for later in self._before[leg + 1 :]:
            later.put(rows, after)
        self.legs.ends_s[leg, rows] = self.end_s[rows] = self._worked_s[rows] = end_s
        used[Used.SECONDS, leg, rows] = awake_s
        used[Used.DONE, leg, rows] = done
        used[Used.SPENT_J, leg, rows] = spent_j
        used[Used.IDLE_J, leg, rows] = idle_j

    def _share(self, phase: Phase, done_s: FloatArray) -> FloatArray:
        """Part of the whole computations that a leg adds [k], of which `done_s` [k] is done."""
        whole_s = phase.whole_s
        if whole_s is None:
            whole_s = phase.timelines.progress[:, -1]
        elif self._waiting is not None:
            done_s = np.maximum(done_s - self._waiting.resume_s, 0.0)
        return np.divide(done_s, whole_s, out=np.ones(done_s.size), where=whole_s > 0.0)

    # --- cutting off ------------------------------------------------------------------------------

    def closing(self, enough: int) -> tuple[float, int]:
        """When (time, priority) the `enough`-th task delivers, or else the last one ends."""
        order = np.lexsort((self._priority, self.end_s))
        delivers = order[self._outcome[order] == DELIVERED]
        row = delivers[enough - 1] if delivers.size >= enough else order[-1]
        return float(self.end_s[row]), int(self._priority[row])

    def cut(self, at_s: float, by: Rank, after: int, outcome: Outcome) -> None:
        """Cut off whatever has not ended at `at_s`, when the event of priority `after` happens.

        From then on the ends of what is cut off have the rank `by`.
        """
        is_cut = comes_after(self.end_s, self._priority, at_s, after)
        if not is_cut.any():
            return
        under_way = self.legs.under_way(at_s, after)
        for leg in range(len(self.legs.stages)):
            self.legs.forget(leg, np.flatnonzero(is_cut & (under_way < leg)))
        rows = np.flatnonzero(is_cut)
        self._priority[rows] = priority(by) | self._number[rows]
        self.legs.priorities[under_way[rows], rows] = self._priority[rows]
        if self._waiting is not None:
            is_waiting = self._cut_waits(is_cut, under_way, at_s)
            under_way = np.where(is_waiting, -1, under_way)
        for phase in self._phases:
            at = np.flatnonzero((is_cut & (under_way == phase.leg))[phase.rows])
            if at.size:
                self._cut_phase(phase, at, at_s)
        self._outcome[rows] = OUTCOMES.index(outcome)

    def _cut_phase(self, phase: Phase, at: IntArray, at_s: float) -> None:
        cut = phase.take(at)
        end_s = np.full(at.size, at_s)
        spent_j = cut.timelines.energy_until(end_s)
        charge, _ = cut.standing.drained(cut.timelines, spent_j, end_s)
        self._book(cut, end_s, spent_j, charge)
        self._stage[cut.rows] = self.legs.stages[phase.leg]

    def _cut_waits(self, is_cut: BoolArray, under_way: IntArray, at_s: float) -> BoolArray:
        """Cut off those who wait before the leg under way [n]; says who they are [n]."""
        is_waiting = np.zeros_like(is_cut)
        for leg, stage in enumerate(self.legs.stages):
            rows = np.flatnonzero(is_cut & (under_way == leg))
            rows = rows[self.legs.is_waiting(leg, rows, at_s)]
            if rows.size:
                is_waiting[rows] = True
                self._worked_s[rows] = self.legs.cut_wait(leg, rows, at_s)
                self._before[-1].put(rows, self._before[leg].take(rows))
                self.end_s[rows], self._stage[rows] = at_s, stage
        return is_waiting

    # --- settling ---------------------------------------------------------------------------------

    def is_delivered(self) -> BoolArray:
        """Which tasks deliver, as things stand [n]."""
        delivers: BoolArray = self._outcome == DELIVERED
        return delivers

    def settle(self) -> None:
        """The tasks have ended: write what became of them on their records and charge the world."""
        clients, world, legs = self.clients, self._world, self.legs
        meters_j, energy_j = world.energy_j[clients], np.zeros((clients.size, len(Component)))
        has_begun = np.zeros(clients.size, dtype=np.bool_)
        for leg, stage in enumerate(legs.stages):  # in the order of time
            for ledger_j in (meters_j, energy_j):
                ledger_j[:, _COMPONENT[stage]] += legs.used[Used.SPENT_J, leg]
                ledger_j[:, Component.IDLE] += legs.used[Used.IDLE_J, leg]
                ledger_j[:, Component.TAIL] += legs.used[Used.TAIL_J, leg]
            if stage == Stage.DOWNLOAD:
                has_begun |= legs.is_in[leg]
        world.energy_j[clients] = meters_j
        has_model = has_begun & ((self._stage > Stage.DOWNLOAD) | self.is_delivered())
        self._write(energy_j)
        world.settle(clients, self._before[-1], self._worked_s)
        world.held_version[clients[has_model]] = self._version[has_model]

    def _write(self, energy_j: FloatArray) -> None:
        legs = self.legs
        for task, code, end_s, seconds, done, joules, num_samples, flop in zip(
            self.tasks,
            self._outcome.tolist(),
            self.end_s.tolist(),
            legs.by_stage(Used.SECONDS).T.tolist(),
            legs.by_stage(Used.DONE).T.tolist(),
            energy_j.tolist(),
            legs.total(Used.NUM_SAMPLES).astype(np.int64).tolist(),
            (self.flop * legs.total(Used.SHARE)).tolist(),
            strict=True,
        ):
            task.outcome, task.finished_at_s = OUTCOMES[code], end_s
            task.download_s, task.compute_s, task.upload_s = seconds
            task.downloaded_bit, _, task.uploaded_bit = done
            task.energy_j = tuple(joules)
            task.num_samples, task.flop = num_samples, flop
        if self._waiting is not None:
            num_pauses, paused_s = legs.num_pauses(), legs.total(Used.PAUSED_S)
            for row in num_pauses.nonzero()[0].tolist():
                self.tasks[row].num_pauses = int(num_pauses[row])
                self.tasks[row].paused_s = float(paused_s[row])
