"""Interface of batteries: levels of N clients over time, idle or in a task. Pure in time.

A level in [0, capacity] changes by d level/dt = charging power - drain, computed from one change of
power to the next. A task drains it down to its cut-off level at most. A phone whose battery has run
empty is off until it is recharged; while it is off, it reaches no level that a rule may ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.timeline import Timelines

LEVEL_SLACK_J = 1e-6
"""Difference by rounding at which a level counts as reached."""


class Flow(IntEnum):
    """Energy into and out of a battery, without the joules of tasks; a column [n, 3]."""

    CHARGED = 0
    """Energy from the charger, stored or used at once."""
    OWNER = 1
    LOSS = 2
    """Energy turned into heat inside the battery."""


class Charge(NamedTuple):
    """Batteries of n clients at one moment each."""

    level_j: FloatArray
    """Joules stored [n]; NaN on mains."""
    is_off: BoolArray
    """True for phones that ran empty and are not yet charged enough to start again [n]."""
    flows_j: FloatArray
    """Joules by `Flow` since virtual time 0 [n, 3]; [n, 0] for plain batteries."""

    def take(self, rows: IntArray | BoolArray) -> Charge:
        """Return a copy of some rows."""
        return Charge._make(column[rows] for column in self)

    def put(self, rows: IntArray, other: Charge) -> None:
        """Overwrite some rows [k] by those of another [k]."""
        for column, theirs in zip(self, other, strict=True):
            column[rows] = theirs

    def copy(self) -> Charge:
        """Return a copy; `put` in one does not change the other."""
        return Charge._make(column.copy() for column in self)


class Passing(NamedTuple):
    """Next passing of a level by batteries, all [k]."""

    passed_s: FloatArray
    """Time of passing; inf where none is passed."""
    standing: IntArray
    """Number of levels that each reaches from then on."""
    known_until_s: FloatArray
    """Time up to which the answer is known where no level is passed; inf: for all time."""


class Phases(NamedTuple):
    """Phases of tasks, which drain the batteries of their clients."""

    clients: IntArray
    charge: Charge
    """Batteries at the start of the phases; no phone is off."""
    timelines: Timelines
    spent_j: FloatArray
    """Joules that the phases draw up to `until_s` [n]."""
    idle_w: FloatArray
    """Additional power for being awake [n]."""
    until_s: FloatArray
    """End of each, within its timeline [n]."""


class WatchRequest(NamedTuple):
    """Idle batteries of clients that are to be watched, and the levels."""

    clients: IntArray
    charge: Charge
    """Their batteries at `from_s`."""
    from_s: FloatArray
    """Time of `charge` [n]."""
    now_s: float
    """First moment of interest."""
    fractions: FloatArray
    """The levels, ascending, as fractions of the capacity [m]."""
    ahead_s: FloatArray
    """Horizon, for batteries whose future must be computed [n]."""


class LevelWatch(Protocol):
    """Times at which idle batteries pass some levels, from one moment on."""

    standing: IntArray
    """Number of the levels that each reaches at that moment [n]; all on mains."""

    def next(self, rows: IntArray, until_s: FloatArray) -> Passing:
        """Return when these rows [k] pass the next level, before `until_s` [k].

        Each call continues from the end of the one before.
        """

    def goes_on(self, rows: IntArray) -> IntArray:
        """Return those of the rows whose batteries may pass a level later."""


@dataclass(frozen=True, slots=True, eq=False)
class Batteries(ABC):
    """Rules of the batteries of N clients; the state is passed in and returned as `Charge`."""

    capacity_j: FloatArray
    """Energy of a full battery [N]; NaN on mains."""
    charge_w: FloatArray
    """Power of every client's charger [N]."""
    cutoff_fraction: float
    has_any: bool
    """True if any client has a battery."""

    num_flows: ClassVar[int]
    """Number of columns of `Charge.flows_j`."""

    def initial(self, level_j: FloatArray) -> Charge:
        """Return batteries with these levels [n], on, before anything has flowed; a copy."""
        size = level_j.size
        return Charge(level_j.copy(), np.zeros(size, np.bool_), np.zeros((size, self.num_flows)))

    @abstractmethod
    def idle(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: ArrayLike
    ) -> Charge:
        """Return batteries of clients [n] after idling from a time [n] to a later one (or [n])."""

    @abstractmethod
    def last_change(
        self, clients: IntArray, charge: Charge, from_s: FloatArray, until_s: float
    ) -> tuple[Charge, FloatArray]:
        """Return idle batteries [n] at their last change up to `until_s`, and its time [n].

        Continuing from there equals continuing from `from_s` [n], bit for bit.
        """

    @abstractmethod
    def work(self, phases: Phases) -> tuple[Charge, FloatArray]:
        """Return batteries after phases, and times at which their cut-offs were met or inf [n].

        A level stays at its cut-off; a battery that is already below it falls no further.
        """

    @abstractmethod
    def watch(self, request: WatchRequest) -> LevelWatch:
        """Watch idle batteries from `now_s` on for when they pass levels."""

    @abstractmethod
    def surely_lasts(
        self, clients: IntArray, level_j: FloatArray, drawn_j: FloatArray
    ) -> BoolArray:
        """Return True for batteries [n] that surely stay above their cut-off; all on mains."""

    @abstractmethod
    def tail_loss(self, clients: IntArray, level_j: FloatArray, tail_w: FloatArray) -> FloatArray:
        """Return the joules that batteries [n] lose per joule of radio tails of `tail_w` [n]."""

    @abstractmethod
    def most_charged_j(self, clients: IntArray, until_s: float) -> FloatArray:
        """Return the joules that chargers could have given since virtual time 0 [n]."""

    def rows_of(self, clients: IntArray) -> IntArray:
        """Return the rows of the clients [n] that have a battery."""
        rows: IntArray = np.isfinite(self.capacity_j[clients]).nonzero()[0]
        return rows
