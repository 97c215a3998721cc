"""What batteries of N clients hold at any moment, idle or in a phase of a task. Pure in time.

A level in [0, capacity] changes by d level/dt = charging power - drain, walked from one change of
power to the next. A task drains it to its cut-off at most. `Batteries` says what can be asked;
`PlainBatteries` (`battery_plain`) are those of which an idle one only rises, so that an answer is a
closed form; `LiveBatteries` (`battery_live`) also fall by themselves.

A phone whose battery has run empty is off until it is recharged; while it is off, it reaches no
level that a rule may ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.timeline import Timelines

LEVEL_SLACK_J = 1e-6
"""A level that is missed by so little is reached."""


class Flow(IntEnum):
    """What went into a battery and out of it, but for the joules of tasks; a column [n, 3]."""

    CHARGED = 0
    """Given by the charger, whether it was stored or used at once."""
    OWNER = 1
    """Used by the owner."""
    LOSS = 2
    """Turned into heat inside the battery."""


class Charge(NamedTuple):
    """Batteries of n clients at one moment each."""

    level_j: FloatArray
    """Joules stored [n]; NaN on mains."""
    is_off: BoolArray
    """True for phones that ran empty and are not yet charged enough to start again [n]."""
    flows_j: FloatArray
    """Joules by `Flow` since virtual time 0 [n, 3]; [n, 0] where only tasks and chargers count."""

    def take(self, rows: IntArray | BoolArray) -> Charge:
        """Copy of some rows."""
        return Charge(self.level_j[rows], self.is_off[rows], self.flows_j[rows])

    def put(self, rows: IntArray, other: Charge) -> None:
        """Let some rows [k] be as another says [k]."""
        self.level_j[rows] = other.level_j
        self.is_off[rows] = other.is_off
        self.flows_j[rows] = other.flows_j

    def copy(self) -> Charge:
        """The same; `put` in one does not show in the other."""
        return Charge(self.level_j.copy(), self.is_off.copy(), self.flows_j.copy())


class Passing(NamedTuple):
    """How batteries pass a level, all [k]."""

    passed_s: FloatArray
    """When; inf where none is passed."""
    standing: IntArray
    """How many levels each reaches from then on."""
    known_until_s: FloatArray
    """Nothing is said of what comes after this, where none is passed before; inf: all is said."""


class Watch(Protocol):
    """Idle batteries, looked at from one moment on for when they pass some levels."""

    standing: IntArray
    """How many of the levels each reaches at that moment [n]; all on mains."""

    def may_pass(self) -> IntArray:
        """Rows of those that may pass a level later on."""

    def next(self, rows: IntArray, until_s: FloatArray) -> Passing:
        """When these rows [k] pass the next level, before `until_s` [k].

        Each call goes on from where the one before ended.
        """

    def goes_on(self, rows: IntArray) -> IntArray:
        """Those of the rows that may pass yet another level."""


@dataclass(frozen=True, slots=True, eq=False)
class Batteries(ABC):
    """Batteries of N clients: what becomes of them, never what they are."""

    capacity_j: FloatArray
    """Of a full one [N]; NaN on mains."""
    charge_w: FloatArray
    """Power of every client's charger [N]."""
    cutoff_fraction: float
    has_any: bool
    """Whether any client has one."""

    @property
    @abstractmethod
    def num_flows(self) -> int:
        """Columns of `Charge.flows_j`."""

    def initial(self, level_j: FloatArray) -> Charge:
        """Return batteries with these levels [n], on, before anything has flowed; a copy."""
        size = level_j.size
        return Charge(level_j.copy(), np.zeros(size, np.bool_), np.zeros((size, self.num_flows)))

    @abstractmethod
    def idle(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: ArrayLike
    ) -> Charge:
        """Batteries of clients [n] without a task, from one time [n] to another (one, or [n]).

        Raises:
            ValueError: it would go back in time.
        """

    @abstractmethod
    def last_change(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: float
    ) -> tuple[Charge, FloatArray]:
        """Idle batteries of clients [n] at the last change up to `until_s`, and when that was [n].

        To go on from there is the same, bit for bit, as to go on from `from_s` [n].
        """

    @abstractmethod
    def work(
        self,
        clients: IntArray,
        charge: Charge,
        timelines: Timelines,
        spent_j: FloatArray,
        idle_w: FloatArray,
        until_s: FloatArray,
    ) -> tuple[Charge, FloatArray]:
        """Batteries of clients [n] in phases of tasks that are cut off at `until_s` [n].

        A battery that is below its cut-off already falls no further.

        Args:
            clients: whose.
            charge: at the start of the phases; nobody is off.
            timelines: the phases.
            spent_j: what they draw up to `until_s` [n].
            idle_w: drawn for being awake, on top [n].
            until_s: end of each, within its timeline.

        Returns:
            (batteries at the end, when the cut-off was met, where the level stays, or inf [n]).
        """

    @abstractmethod
    def watch(
        self,
        clients: IntArray,
        charge: Charge,
        from_s: FloatArray,
        now_s: float,
        fractions: FloatArray,
        ahead_s: FloatArray,
    ) -> Watch:
        """Watch idle batteries from a moment on for when they pass levels.

        Args:
            clients: whose [n].
            charge: as they were at `from_s` [n].
            from_s: when [n].
            now_s: the moment.
            fractions: the levels, ascending, as fractions of the capacity [m].
            ahead_s: how far to look ahead where that costs anything [n].
        """

    @abstractmethod
    def surely_lasts(
        self, clients: IntArray, level_j: FloatArray, drawn_j: FloatArray
    ) -> BoolArray:
        """Which batteries [n] stay above their cut-off whatever else happens; all on mains."""

    @abstractmethod
    def tail_loss(self, clients: IntArray, level_j: FloatArray, tail_w: FloatArray) -> FloatArray:
        """Joules that batteries [n] lose for every joule of radio tails of these powers [n]."""

    def rows_of(self, clients: IntArray) -> IntArray:
        """Rows of those of the clients [n] that have a battery."""
        rows: IntArray = np.isfinite(self.capacity_j[clients]).nonzero()[0]
        return rows
