"""Order of events at the same virtual instant, `Rank`, and the clock that follows it.

Answers or losses of the same instant follow the order of dispatch. With the last wanted answer the
round is closed, and a further answer of the same instant is cancelled.

SimPy orders its queue by (time, priority, insertion), and insertion depends on when an event was
planned. So every event with a meaning gets an explicit priority here, and an absolute time: ten
steps of 0.1 s are not one of 1.0 s.
"""

import math
from enum import IntEnum
from heapq import heappush

import simpy
from simpy.events import EventPriority

from fleetsim.errors import SimulationError

_TASK_BITS = 48
_STANDSTILL_S = 1e-6
_EVENTS_AT_ONCE = 10_000
_EVENTS_PER_CLIENT = 100
"""Events within `_STANDSTILL_S` of virtual time at which a watchdog ends the run: so many, and so
many more for every client at work. A cohort that ends at one instant takes fewer than ten each."""


class Rank(IntEnum):
    """Kind of an event, in the order of the rule; SimPy's own events (0, 1) come before."""

    DELIVERY = 1
    LOSS = 2
    DEADLINE = 3
    WAKE = 4
    STOP = 5


_NAMES = {
    Rank.DELIVERY: "the end of a task",
    Rank.LOSS: "the loss of a client",
    Rank.DEADLINE: "a deadline",
    Rank.WAKE: "a wake-up of the server",
    Rank.STOP: "the end of the run",
}


def priority(rank: Rank, task: int = 0) -> int:
    """Return the SimPy priority of an event of this rank and task; lower comes first."""
    return (int(rank) << _TASK_BITS) | task


class Clock(simpy.Environment):
    """SimPy environment with events at absolute times, explicit priorities and a watchdog."""

    def __init__(self, begins_s: float = 0.0, *, clients_at_work: int = 0) -> None:
        """Begin at `begins_s`, with a watchdog for this number of clients at work."""
        super().__init__(begins_s)
        self._events_at_most = _EVENTS_AT_ONCE + _EVENTS_PER_CLIENT * clients_at_work
        self._stands_since_s = begins_s
        self._events_since = 0
        self._last_priority = 0

    def step(self) -> None:
        """Process the next event."""
        if self._queue:
            time_s, priority_, _, _ = self._queue[0]
            if time_s > self._stands_since_s + _STANDSTILL_S:
                self._stands_since_s, self._events_since = time_s, 0
            elif self._events_since >= self._events_at_most:
                self._raise_standstill()
            self._events_since += 1
            if priority_ >> _TASK_BITS:
                self._last_priority = priority_
        super().step()

    def _raise_standstill(self) -> None:
        rank, task = self._last_priority >> _TASK_BITS, self._last_priority % (1 << _TASK_BITS)
        event = _NAMES[Rank(rank)] if rank else "the start of a process"
        raise SimulationError(
            f"the clock stands still: {self._events_since} events within {_STANDSTILL_S:g} s, the"
            f" last of which was {event}",
            time_s=float(self._now),
            task=task if rank in (Rank.DELIVERY, Rank.LOSS) else None,
        )

    def at(self, time_s: float, rank: Rank, task: int = 0) -> simpy.Event:
        """Return an event that succeeds at exactly `time_s`, after those of a lower rank."""
        return self.place(time_s, priority(rank, task))

    def place(self, time_s: float, priority_: int) -> simpy.Event:
        """Return an event that succeeds at exactly `time_s`, after those of a lower priority."""
        if not self.now <= time_s < math.inf:
            raise ValueError(f"cannot place an event at {time_s!r} s, it is {self.now!r} s")
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        # SimPy's `schedule` takes a delay, and now + (time - now) may miss time by a rounding
        # that no other delay corrects (ties to even). So this is its one line, at the time itself.
        heappush(self._queue, (time_s, EventPriority(priority_), next(self._eid), event))
        return event
