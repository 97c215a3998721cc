"""Network traces: measured rates that hold from one millisecond to another.

Records, such as drives through a city with a phone that downloads all the time, cover [0, span) ms.
Times are whole milliseconds, so that laps of a record add up exactly. A rate of 0 is an outage.
"""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, fields
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.read_only import freeze

MAX_BIT_PER_S: Final = 1e15
Place = Callable[[int], str]
"""Source of the sample with this index, for messages: 'rates.csv, row 7'."""


@dataclass(frozen=True, slots=True, eq=False)
class NetTrace:
    """Records of K traces with S samples in all, record by record.

    The samples of record k are those with index offsets[k] up to (not including) offsets[k + 1].

    Invariants: every record has a sample at 0; times strictly increase within a record and stay
    below its span; rates are in [0, 1e15]; every record carries bits in some direction.
    """

    name: str
    """File that it was read from, for messages."""
    record_ids: tuple[str, ...]
    """Name of every record [K]."""
    span_ms: IntArray
    """Length of every record [K]; then it begins anew."""
    offsets: IntArray
    """Index of each record's first sample, and the end of the last record [K+1]."""
    times_ms: IntArray
    """Beginning of each sample, after that of its record [S]."""
    down_bit_per_s: FloatArray
    """Rate to the client from this sample on [S]."""
    up_bit_per_s: FloatArray | None
    """Rate from the client [S]; None: it was not measured."""
    place: InitVar[Place | None] = None

    def __post_init__(self, place: Place | None) -> None:
        arrays = [getattr(self, field.name) for field in fields(self)]
        freeze(*(array for array in arrays if isinstance(array, np.ndarray)))
        self._check_names()
        self._check_samples(self._place if place is None else place)

    @property
    def num_records(self) -> int:
        """Number of records K."""
        return len(self.record_ids)

    def _place(self, sample: int) -> str:
        record = int(np.searchsorted(self.offsets, sample, side="right")) - 1
        row = sample - int(self.offsets[record]) + 1
        return f"{self.name}, trace {quoted(self.record_ids[record])}, sample {row}"

    def _check_names(self) -> None:
        if not self.record_ids:
            raise DataError(f"{self.name}: no samples; a network trace needs at least one")
        if len(set(self.record_ids)) < self.num_records:
            raise DataError(f"{self.name}: two records of one name; make the names distinct")

    def _check_samples(self, place: Place) -> None:
        times_ms, first = self.times_ms, self.offsets[:-1]
        for sample in first[times_ms[first] != 0].tolist()[:1]:
            raise DataError(
                f"{place(sample)}: the first sample is at {times_ms[sample] / 1000:g} s; take that"
                " off every time of this trace, so that it begins at 0"
            )
        step_ms = np.diff(times_ms)
        step_ms[first[1:] - 1] = 1
        for before in np.flatnonzero(step_ms <= 0)[:1].tolist():
            raise DataError(
                f"{place(before + 1)}: {times_ms[before + 1] / 1000:g} s does not come after"
                f" {times_ms[before] / 1000:g} s; sort the trace's rows and keep one per time"
            )
        last = self.offsets[1:] - 1
        for record in np.flatnonzero(times_ms[last] >= self.span_ms)[:1].tolist():
            raise DataError(
                f"{place(int(last[record]))}: begins at {times_ms[last[record]] / 1000:g} s, not"
                f" before the trace's end at {self.span_ms[record] / 1000:g} s; lengthen the trace"
            )
        carries = np.zeros(self.num_records, dtype=np.bool_)
        for name in ("down_bit_per_s", "up_bit_per_s"):
            rates = getattr(self, name)
            if rates is None:
                continue
            is_rate = (rates >= 0.0) & (rates <= MAX_BIT_PER_S)
            for sample in np.flatnonzero(~is_rate)[:1].tolist():
                raise DataError(
                    f"{place(sample)}: {name} = {rates[sample]:g} is not in [0,"
                    f" {MAX_BIT_PER_S:g}]; correct it"
                )
            carries |= np.maximum.reduceat(rates, first) > 0.0
        for record in np.flatnonzero(~carries)[:1].tolist():
            raise DataError(
                f"{place(int(first[record]))}: trace {quoted(self.record_ids[record])} never"
                " carries a bit; drop it"
            )
