"""Rates of clients that follow network traces, exact in every lap.

Client i follows one record of a `NetTrace` with a shift (docs/models/network-traces.md). Edges are
integers until the one division that makes them seconds, so neither the number of laps nor the order
of queries changes them. The bits before every sample are summed once. Two bisections then give the
number of samples that a transfer touches, however long it takes; only these samples are laid out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.transfer import RateSteps, TransferRequests, lay_out_changing
from fleetsim.fleet.timeline import TimelineGroups
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.fleet.traces.usage.trace import is_change
from fleetsim.read_only import freeze
from fleetsim.units import MS_PER_S

_SPARE_STEPS: Final = 2
"""Steps in addition to those that the sums of bits give, which are rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class NetSteps:
    """Rates of one direction over K records, on one axis of milliseconds and one of bits."""

    begins_ms: IntArray
    """Begin of each record on the axis of time, and end of the last one [K+1]."""
    offsets: IntArray
    """Index of each record's first step, and the number of steps [K+1]."""
    at_ms: IntArray
    """Begin of each step on the axis of time [C]."""
    bit_per_s: FloatArray
    """Rate of each step [C]; consecutive steps of a record differ."""
    bit_before: FloatArray
    """Bits of all steps before each step, and of all [C+1]."""

    def __post_init__(self) -> None:
        freeze(*(getattr(self, field.name) for field in fields(self)))

    @classmethod
    def of(cls, trace: NetTrace, rates_bit_per_s: FloatArray) -> NetSteps:
        """Return the steps of one direction of a trace, from the rate of every sample."""
        kept = np.flatnonzero(is_change(trace.offsets, (rates_bit_per_s,)))
        begins_ms = np.append(0, np.cumsum(trace.span_ms))
        axis_ms = trace.times_ms + np.repeat(begins_ms[:-1], np.diff(trace.offsets))
        at_ms, rates = axis_ms[kept], rates_bit_per_s[kept]
        bit = rates * (np.diff(np.append(at_ms, begins_ms[-1])) / MS_PER_S)
        return cls(
            begins_ms,
            np.searchsorted(kept, trace.offsets),
            at_ms,
            rates,
            np.append(0.0, np.cumsum(bit)),
        )

    def at(self, axis_ms: IntArray) -> IntArray:
        """Return the steps that hold at places on the axis of time, shape kept."""
        return np.searchsorted(self.at_ms, axis_ms, side="right") - 1

    def from_step(
        self, record: IntArray, here: IntArray, lap_ms: IntArray, num: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return edges in s [n, num+1] and rates in bit/s between them [n, num] of records [n].

        The first step is `here`, in a lap that began at `lap_ms`.
        """
        first, num_steps = self.offsets[record], np.diff(self.offsets)[record]
        span_ms = np.diff(self.begins_ms)[record]
        lap, place = np.divmod(
            (here - first)[:, np.newaxis] + np.arange(num + 1), num_steps[:, np.newaxis]
        )
        step = first[:, np.newaxis] + place
        edges_ms = self.at_ms[step] + (lap_ms - self.begins_ms[record])[:, np.newaxis]
        edges_s = (edges_ms + lap * span_ms[:, np.newaxis]) / MS_PER_S
        return edges_s, self.bit_per_s[step[:, :-1]]

    def num_touched(
        self, record: IntArray, here: IntArray, axis_ms: IntArray, bit: FloatArray
    ) -> FloatArray:
        """Estimate the number of steps with so many bits from places on the axis on [n], or inf."""
        first, end = self.offsets[record], self.offsets[record + 1]
        before_bit = self.bit_before[first]
        per_lap_bit = self.bit_before[end] - before_bit
        into_bit = self.bit_per_s[here] * ((axis_ms - self.at_ms[here]) / MS_PER_S)
        need_bit = self.bit_before[here] + into_bit - before_bit + bit
        with np.errstate(divide="ignore", over="ignore"):
            laps = np.floor(need_bit / per_lap_bit)
        is_known = np.isfinite(laps)
        rest_bit = np.where(is_known, need_bit - np.where(is_known, laps, 0.0) * per_lap_bit, 0.0)
        last = np.searchsorted(self.bit_before, before_bit + rest_bit, side="left") - 1
        return np.asarray(laps * (end - first) + np.clip(last, first, end - 1) - here + 1)


@dataclass(frozen=True, slots=True, eq=False)
class NetLinks:
    """Records that N clients follow; built by `TraceSettings.links_of`."""

    record: IntArray
    """Record of every client [N]; wired clients have one too, unused."""
    shift_ms: IntArray
    """Shift of every client's record [N]: the client is ahead of it by this time."""
    span_ms: IntArray
    """Length of every record [K]."""
    steps: tuple[NetSteps, NetSteps]
    """Down, up."""

    def __post_init__(self) -> None:
        freeze(self.record, self.shift_ms, self.span_ms)

    def rates_at(self, clients: IntArray, direction: Direction, t_s: FloatArray) -> FloatArray:
        """Return rates of clients [n] at moments [n], in bit/s."""
        row = ROW[direction]
        here, _, _ = self._places(clients, row, t_s)
        return np.asarray(self.steps[row].bit_per_s[here])

    def steps_from(
        self, clients: IntArray, direction: Direction, t_s: FloatArray, num_steps: int
    ) -> RateSteps:
        """Return rates from moments on; arguments as in `ChangingRates.steps_from`."""
        row = ROW[direction]
        here, _, lap_ms = self._places(clients, row, t_s)
        edges_s, rates_bit_per_s = self.steps[row].from_step(
            self.record[clients], here, lap_ms, num_steps
        )
        return RateSteps(edges_s, rates_bit_per_s, rates_bit_per_s)

    def lay_out(self, requests: TransferRequests, rows: IntArray) -> TimelineGroups:
        """Return the timelines of those transfers whose indices are `rows` [k]."""
        clients, row = requests.clients[rows], ROW[requests.direction]
        steps, record = self.steps[row], self.record[clients]
        origin_ms = steps.begins_ms[record]
        here, local_ms, lap_ms = self._places(clients, row, requests.start_s[rows])
        until_ms = milliseconds(np.nextafter(requests.deadline_s[rows], 0.0))
        laps, last_ms = np.divmod(until_ms - lap_ms, self.span_ms[record])
        num_in_lap = np.diff(steps.offsets)[record]
        most = laps * num_in_lap + steps.at(origin_ms + last_ms) - here + 1
        needed = steps.num_touched(
            record, here, origin_ms + local_ms, requests.bit_over_multiple(rows)
        )
        return lay_out_changing(
            requests,
            rows,
            np.minimum(most, needed + _SPARE_STEPS),
            most,
            lambda at, num: steps.from_step(record[at], here[at], lap_ms[at], num),
        )

    def _places(
        self, clients: IntArray, row: int, t_s: FloatArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return steps that hold at `t_s`, milliseconds into their laps, begins of the laps [n]."""
        steps, record = self.steps[row], self.record[clients]
        now_ms = milliseconds(t_s)
        local_ms = (now_ms + self.shift_ms[clients]) % self.span_ms[record]
        return steps.at(steps.begins_ms[record] + local_ms), local_ms, now_ms - local_ms


def milliseconds(t_s: FloatArray) -> IntArray:
    """Return whole milliseconds m of moments: m / 1000 <= t < (m + 1) / 1000, shape kept."""
    ms = np.floor(t_s * MS_PER_S).astype(np.int64)
    # Rounding of the product may be off by one: the edges m / 1000 decide.
    ms -= ms / MS_PER_S > t_s
    return np.asarray(ms + ((ms + 1) / MS_PER_S <= t_s))
