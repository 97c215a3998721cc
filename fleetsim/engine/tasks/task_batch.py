"""How tasks go that are sent out at the same moment, laid out ahead and cut off anywhere.

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
Clients at work do not influence each other and the world is a pure function of time, so what
becomes of a task is known when it is sent out, unless the server cuts it off. Each phase is laid
out as a timeline from where the one before ended, for all tasks of a course at once, and ends with
whatever comes first. Where `interruption` says so, a task outlives that its owner takes the device
away: what is left of the phase is a further leg, laid out from when the client is back. Nothing is
charged to the world before a task ends (`settle`); then what was used up to that moment is charged
whatever the outcome: every joule and byte of a failed task is on its record. Ties follow `ties`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, ModelCost, Outcome, Work, WorkKind
from fleetsim.counts import num_batches
from fleetsim.engine.client_state import Standing
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.tasks.interruption import (
    InterruptionSettings,
    LoseSettings,
    PartialSettings,
    Waiting,
)
from fleetsim.engine.tasks.lost_clients import LaidOut, until_lost
from fleetsim.engine.tasks.phase_segments import Stage, Used
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.tasks.task_outcomes import DELIVERED, MEMORY, Lives, Phase
from fleetsim.engine.world import World
from fleetsim.fleet.devices.compute import num_steps, work_flop
from fleetsim.fleet.network.direction import Direction
from fleetsim.units import BIT_PER_BYTE

_NONE = np.empty(0, dtype=np.int64)
_LOSE = LoseSettings()


class Course:
    """n tasks from their dispatch to their end.

    Rows of its arrays are tasks in the order given. All of it stands when it is made; `cut` takes
    back what comes after a moment.
    """

    def __init__(
        self,
        world: World,
        tasks: Sequence[Task],
        *,
        now_s: float,
        cost: ModelCost,
        batch_size: int,
        interruption: InterruptionSettings = _LOSE,
        cut_at_s: float = np.inf,
    ) -> None:
        """Lay the tasks out.

        Args:
            world: the fleet and what it remembers.
            tasks: what is sent out.
            now_s: when.
            cost: the model.
            batch_size: samples of a full batch.
            interruption: what becomes of tasks whose clients leave.
            cut_at_s: when whatever has not ended will be cut off. Nothing is laid out beyond it:
                a task that lasts longer ends just after it until it is cut off.

        Raises:
            SimulationError: a client is in a task already, or its battery left [0, capacity].
        """
        self.tasks = tasks
        self._world, self._cost, self._batch_size = world, cost, batch_size
        clients = np.array([task.client for task in tasks], dtype=np.int64)
        self._waiting: Waiting | None = None
        """How tasks bear interruptions; None: none does."""
        if not isinstance(interruption, LoseSettings):
            self._waiting = Waiting(interruption, world.absences(clients, now_s), tasks)
        self._lives = Lives(world, tasks, self._waiting, now_s=now_s, cut_at_s=cut_at_s)
        self._arrives: BoolArray | None = None
        """Whether each upload arrives if it is not cut off [n]; None: all do."""
        if (arrivals := world.fleet.channel.arrivals) is not None:
            self._arrives = arrivals.of(clients, [task.address for task in tasks])
        rows = np.arange(len(tasks))
        rows = self._transfer(Stage.DOWNLOAD, rows, [task.download_bit for task in tasks])
        rows = self._compute(rows)
        self._ask_resources(rows)
        self._transfer(Stage.UPLOAD, rows, [task.upload_bit for task in tasks])

    # --- laying out -------------------------------------------------------------------------------

    def _transfer(self, stage: Stage, rows: IntArray, bits: Sequence[int]) -> IntArray:
        """Lay out a transfer of these tasks; returns those that go on after it."""
        bit = np.array(bits, dtype=np.float64)
        moving = rows[bit[rows] > 0.0]
        stays = [] if moving.size == rows.size else [rows[bit[rows] == 0.0]]
        for again in itertools.count():
            if moving.size == 0:
                break
            leg, moving, standing = self._lives.begin(stage, again, moving)
            if moving.size:
                stays += self._move(leg, moving, standing, bit[moving])
            moving = self._interrupted(stage, moving)
            if moving.size:
                self._keep_bits(leg, moving, bit)
        return _in_order(stays)

    def _move(
        self, leg: int, moving: IntArray, standing: Standing, bit: FloatArray
    ) -> list[IntArray]:
        """Lay out a leg of transfers of so many bits [k]; returns the tasks that go on after it."""
        lives, fleet, stage = self._lives, self._world.fleet, self._lives.legs.stages[leg]
        clients, start_s = lives.clients[moving], lives.end_s[moving]
        direction = Direction.DOWN if stage == Stage.DOWNLOAD else Direction.UP
        radio = fleet.radios_at(clients, start_s)
        is_asleep = standing.is_asleep(radio, start_s)

        def lay_out(lost_at_s: FloatArray) -> LaidOut:
            laid_out = fleet.transfers(
                clients, direction, start_s, bit, radio, is_asleep, lost_at_s
            )
            return [
                (at, standing.take(at).after_paid_tails(timelines, radio[at]))
                for at, timelines in laid_out
            ]

        stays = []
        for at, laid_out in until_lost(lay_out, standing, lives.lost_at_s(moving)):
            timelines = laid_out
            if stage == Stage.UPLOAD and self._arrives is not None:
                is_complete = laid_out.is_complete & self._arrives[moving[at]]
                timelines = replace(laid_out, is_complete=is_complete)
            phase = Phase(leg, moving[at], timelines, standing.take(at), radio[at])
            stays.append(lives.live(phase))
        return stays

    def _compute(self, rows: IntArray) -> IntArray:
        """Lay out the computation of these tasks; returns those that go on after it."""
        works = [self.tasks[row].work for row in rows.tolist()]
        stays = []
        # Mostly all are one object; to compare records takes longer.
        for work in dict.fromkeys({id(work): work for work in works}.values()):
            same = rows[np.array([other is work or other == work for other in works])]
            if work.kind is WorkKind.NONE:
                stays.append(same)
                continue
            if _takes_steps(work):
                # Once, when the computation begins: what training has the system leaves to it.
                dies = self._world.dies_of_memory(
                    self._lives.clients[same], self._lives.end_s[same]
                )
                self._work(same[dies], self._first_batch(work), ends_as=MEMORY)
                same = same[~dies]
            stays += self._work(same, work)
        return _in_order(stays)

    def _work(self, rows: IntArray, work: Work, *, ends_as: int = DELIVERED) -> list[IntArray]:
        """Lay out one work of these tasks; returns those that go on after it."""
        lives, fleet, waiting = self._lives, self._world.fleet, self._waiting
        held = fleet.samples_for(work)[lives.clients[rows]]
        lives.flop[rows] = work_flop(
            self._cost, work, num_samples=held, batch_size=self._batch_size
        )
        stays: list[IntArray] = []
        rest_s = whole_s = np.zeros(len(self.tasks))
        for again in itertools.count():
            if rows.size == 0:
                break
            leg, rows, standing = lives.begin(Stage.COMPUTE, again, rows)
            if rows.size == 0:
                break
            has_begun = again > 0
            resume_s = waiting.resume_s if has_begun and waiting is not None else 0.0
            timelines = fleet.computations(
                lives.clients[rows],
                lives.end_s[rows],
                standing.condition,
                self._cost,
                work,
                self._batch_size,
                left_s=rest_s[rows] + resume_s if has_begun else None,
                matters_until_s=np.minimum(lives.lost_at_s(rows), lives.cut_at_s),
            )
            of_whole_s = whole_s[rows] if has_begun else None
            stays.append(
                lives.live(Phase(leg, rows, timelines, standing, None, work, ends_as, of_whole_s))
            )
            if waiting is None:
                break
            if not has_begun:
                whole_s[rows] = timelines.progress[:, -1]
                rest_s = whole_s.copy()
                if ends_as == DELIVERED:
                    stays.append(self._hand_in(leg, lives.taken_away(rows), work))
            rows = self._interrupted(Stage.COMPUTE, rows)
            done_s = np.maximum(lives.legs.used[Used.DONE, leg, rows] - resume_s, 0.0)
            rest_s[rows] = np.maximum(rest_s[rows] - done_s, 0.0)
        return stays

    def _first_batch(self, work: Work) -> Work:
        """What a device without the memory for a step gets done: one batch's forward pass."""
        return Work(
            WorkKind.EVALUATE,
            num_samples=self._batch_size,
            clock_fraction=work.clock_fraction,
        )

    def _ask_resources(self, rows: IntArray) -> None:
        for row in rows.tolist():
            if self.tasks[row].asks_resources:
                self.tasks[row].resources = self._world.resources(
                    self.tasks[row].client,
                    float(self._lives.end_s[row]),
                    level_j=float(self._lives.standing.level_j[row]),
                    cost=self._cost,
                    batch_size=self._batch_size,
                )

    # --- interruptions ----------------------------------------------------------------------------

    def _interrupted(self, stage: Stage, rows: IntArray) -> IntArray:
        """Those of some tasks that have been interrupted in a stage and outlive it."""
        if self._waiting is None:
            return _NONE
        taken = self._lives.taken_away(rows)
        return taken[self._waiting.bears(taken, stage)]

    def _keep_bits(self, leg: int, rows: IntArray, bit: FloatArray) -> None:
        """Transfers [k] of what is left of `bit` [n] were interrupted: what need not move again."""
        assert self._waiting is not None
        done = self._lives.legs.used[Used.DONE, leg]
        # A byte is there or not; the last of them is not, or nothing would be left.
        moved = np.floor(done[rows] / BIT_PER_BYTE) * BIT_PER_BYTE
        done[rows] = moved = np.minimum(moved, bit[rows] - BIT_PER_BYTE)
        if self._waiting.settings.transfers == "resume":
            bit[rows] -= moved
            return
        is_down = self._lives.legs.stages[leg] == Stage.DOWNLOAD
        for row, again in zip(rows.tolist(), moved.tolist(), strict=True):
            down, up = self.tasks[row].again_bit
            self.tasks[row].again_bit = (down + again, up) if is_down else (down, up + again)

    def _hand_in(self, leg: int, rows: IntArray, work: Work) -> IntArray:
        """Trainings were interrupted; returns those whose whole steps are to be uploaded."""
        assert self._waiting is not None
        settings, rows = self._waiting.settings, rows[self._waiting.hands_in[rows]]
        if rows.size == 0 or not isinstance(settings, PartialSettings):
            return _NONE
        fleet, clients = self._world.fleet, self._lives.clients[rows]
        share = self._lives.legs.used[Used.SHARE, leg, rows]
        steps = fleet.steps_done(clients, self._cost, work, self._batch_size, share)
        num_samples = fleet.num_samples[clients]
        # The answer holds what was trained in a probe before, too.
        before = np.array([self.tasks[row].epochs_before for row in rows.tolist()], dtype=np.int64)
        before *= num_batches(num_samples, self._batch_size)
        made = before + steps
        part = made / (before + num_steps(work, num_samples, self._batch_size))
        is_enough = (made >= 1) & (part >= settings.min_fraction)
        rows = rows[is_enough]
        for row, most_steps, fraction in zip(
            rows.tolist(), made[is_enough].tolist(), part[is_enough].tolist(), strict=True
        ):
            task = self.tasks[row]
            task.completed_fraction = fraction
            task.weight_fraction = fraction if settings.weight == "processed" else 1.0
            if task.job is not None:
                task.job = task.job._replace(most_steps=most_steps)
        self._lives.go_on(rows)
        return rows

    # --- as things stand --------------------------------------------------------------------------

    @property
    def end_s(self) -> FloatArray:
        """When each task ends [n]."""
        return self._lives.end_s

    def closing(self, enough: int) -> tuple[float, int]:
        """When (time, priority) the `enough`-th task delivers, or else the last one ends."""
        return self._lives.closing(enough)

    def give_up(self, at_s: float) -> None:
        """The server gives up, at its deadline, on whatever has not ended by then."""
        self._lives.cut(at_s, Rank.DEADLINE, priority(Rank.DEADLINE), Outcome.LATE)

    def cut(self, at_s: float, after: int, outcome: Outcome) -> None:
        """Cut off whatever has not ended at `at_s`, when the event of priority `after` happens."""
        self._lives.cut(at_s, Rank.STOP, after, outcome)

    def is_delivered(self) -> BoolArray:
        """Which tasks deliver, as things stand [n]."""
        return self._lives.is_delivered()

    def lost_at_s(self, rows: IntArray) -> FloatArray:
        """When clients of tasks [k] that delivered leave by themselves, but for batteries [k]."""
        return self._lives.lost_at_s(rows)

    def settle(self) -> None:
        """The tasks have ended: write what became of them on their records and charge the world."""
        self._lives.settle()


def _takes_steps(work: Work) -> bool:
    """Whether it has a backward pass, for which the forward pass keeps what it computed."""
    is_training = work.kind is WorkKind.TRAIN and (work.epochs > 0 or work.steps is not None)
    return is_training or work.kind is WorkKind.GRADIENT


def _in_order(parts: Sequence[IntArray]) -> IntArray:
    """All rows of the parts, ascending."""
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate([_NONE, *parts]))
