"""Import of any table of measured rates: one row per sample, in columns that its owner names.

Rules, each counted in the notes of the import:

- A row without a time, without any rate, or without a value in the columns of `--who`, is left
  out. Missing are empty fields and the words of `--missing`.
- Rows of a record are sorted by time; those that were earlier than the row above count.
- Rows of the same millisecond of a record become one, with the mean of their rates (of each
  direction, over the rows that have it). `by_second` does the same for rows of the same second.
- A rate that is missing in one direction only is that of the sample before, or 0 at first.
- A record whose rates are all 0 is left out.
- A pause of more than `split_gap_s` between two samples ends a record, if given: what follows is
  another record, NAME/2 and so on, and the sample before the pause lasts as long as the median
  sample.

The last sample of a record lasts as long as the median of its samples, or 1 s if it is the only
one.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.column_choice import ColumnChoice, counted, named_rows, refuse
from fleetsim.fleet.traces.column_numbers import numbers_of, refuse_marks, times_of
from fleetsim.fleet.traces.csv_table import CsvTable, read_filled_table
from fleetsim.fleet.traces.network.trace import MAX_BIT_PER_S, NetTrace
from fleetsim.fleet.traces.ordered_rows import begins, held, last_lasting, num_unordered
from fleetsim.fleet.traces.table_rows import SEEN, Layout
from fleetsim.units import BIT_PER_S_OF, MS_PER_S

_LONE_SAMPLE_MS = 1000


class ReadRates(NamedTuple):
    """Records of a table, and notes on what was joined or left out."""

    trace: NetTrace
    notes: tuple[str, ...]


def read_rate_table(
    path: Path,
    *,
    time: ColumnChoice,
    down: ColumnChoice,
    up: ColumnChoice | None = None,
    who: tuple[ColumnChoice, ...] = (),
    by_second: bool = False,
    split_gap_s: float | None = None,
    layout: Layout = SEEN,
) -> ReadRates:
    """Read a table of rates; the rules are those of the module.

    The values of `who` together name the record of a row; without them all rows are one record.
    """
    factors = {choice: choice.factor(BIT_PER_S_OF) for choice in (down, up) if choice is not None}
    table = read_filled_table(path, layout)
    at_s = times_of(table, time).at_s
    rates = np.array([_rates(table, choice, factor) for choice, factor in factors.items()])
    record, names = named_rows(table, who)
    has_time, has_rate = ~np.isnan(at_s), ~np.isnan(rates).all(axis=0)
    has_name = record >= 0
    kept = np.flatnonzero(has_time & has_rate & has_name)
    if kept.size == 0:
        raise DataError(
            f"{path}: none of {table.num_rows} rows has a time and a rate, and a value of --who;"
            " check the columns"
        )
    num_kept_records = np.unique(record[kept]).size
    record, time_ms, rates, joined_notes = _joined(
        record[kept], at_s[kept], rates[:, kept], len(names), by_second=by_second
    )
    notes = [
        f"{table.num_rows} rows read, {time_ms.size} samples kept",
        *table.notes,
        *counted((~has_name).sum(), "left out without a value of --who"),
        *counted((~has_time).sum(), "left out without a time"),
        *counted((has_time & ~has_rate).sum(), "left out without a rate"),
        *counted(len(names) - num_kept_records, "left out, none of whose rows is kept", "records"),
        *joined_notes,
    ]
    trace, more = _trace(path, names, record, time_ms, rates, split_gap_s)
    return ReadRates(trace, (*notes, *more))


def _joined(
    record: IntArray, at_s: FloatArray, rates: FloatArray, num_records: int, *, by_second: bool
) -> tuple[IntArray, IntArray, FloatArray, list[str]]:
    """Return records, times in ms and rates [1 or 2, S] of samples, one per moment, and notes."""
    time_ms = np.rint(at_s * MS_PER_S).astype(np.int64)
    if by_second:
        time_ms = time_ms // MS_PER_S * MS_PER_S
    unordered = num_unordered(record, time_ms)
    order = np.lexsort((time_ms, record))
    record, time_ms, rates = record[order], time_ms[order], rates[:, order]
    first = np.flatnonzero(begins(record, time_ms))
    num_rows = np.diff(np.append(first, record.size))
    has = ~np.isnan(rates)
    total = np.add.reduceat(np.where(has, rates, 0.0), first, axis=1)
    count = np.add.reduceat(has.astype(np.int64), first, axis=1)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    record, time_ms, is_joined = record[first], time_ms[first], num_rows > 1
    notes = [
        *counted(unordered, "earlier than the row above in their record; sorted by time"),
        *counted(
            num_rows[is_joined].sum(),
            f"of the same {'second' if by_second else 'millisecond'} as another of their record, in"
            f" {np.unique(record[is_joined]).size} of {num_records} records; joined to"
            f" {np.count_nonzero(is_joined)} samples by their mean",
        ),
        *counted(np.isnan(mean).sum(), "without one of the two rates, which is that before it"),
    ]
    return record, time_ms, np.array([held(row, record) for row in mean]), notes


def _trace(
    path: Path,
    names: tuple[str, ...],
    record: IntArray,
    time_ms: IntArray,
    rates: FloatArray,
    split_gap_s: float | None,
) -> tuple[NetTrace, list[str]]:
    """Return the records, each from 0 on, and notes on pauses and on what was left out."""
    step_ms = np.diff(time_ms)
    is_same = np.diff(record) == 0
    is_pause = np.zeros(step_ms.size, dtype=np.bool_)
    if split_gap_s is not None:
        is_pause = is_same & (step_ms > split_gap_s * MS_PER_S)
    first = np.append(0, np.flatnonzero(~is_same | is_pause) + 1)
    end = np.append(first[1:], time_ms.size)
    parts: dict[str, int] = {}
    ids, spans_ms, kept, silent = [], [], np.zeros(time_ms.size, dtype=np.bool_), 0
    times_ms = time_ms.copy()
    for begin, stop in zip(first.tolist(), end.tolist(), strict=True):
        name = names[int(record[begin])]
        parts[name] = part = parts.get(name, 0) + 1
        if not (rates[:, begin:stop] > 0.0).any():
            silent += 1
            continue
        times_ms[begin:stop] -= time_ms[begin]
        kept[begin:stop] = True
        ids.append(name if part == 1 else f"{name}/{part}")
        spans_ms.append(
            int(times_ms[stop - 1]) + last_lasting(times_ms[begin:stop], _LONE_SAMPLE_MS)
        )
    if not ids:
        raise DataError(f"{path}: no record carries a bit; check the column of the rate")
    rates = rates[:, kept]
    sizes = [int(stop - begin) for begin, stop in zip(first, end, strict=True) if kept[begin]]
    trace = NetTrace(
        name=str(path),
        record_ids=tuple(ids),
        span_ms=np.array(spans_ms, dtype=np.int64),
        offsets=np.cumsum([0, *sizes]),
        times_ms=times_ms[kept],
        down_bit_per_s=rates[0].copy(),
        up_bit_per_s=rates[1].copy() if len(rates) > 1 else None,
    )
    notes = [
        f"{len(ids)} records, {trace.span_ms.sum() / 3.6e6:.2f} h",
        *counted(silent, "left out that never carry a bit", "records"),
    ]
    if split_gap_s is not None:
        notes.append(f"{int(is_pause.sum())} pauses of more than {split_gap_s:g} s end a record")
    elif (is_same & kept[1:]).any():
        longest_s = int(step_ms[is_same & kept[1:]].max()) / MS_PER_S
        notes.append(f"longest time from a sample to the next: {longest_s:g} s")
    return trace, notes


def _rates(table: CsvTable, choice: ColumnChoice, factor: float) -> FloatArray:
    written = numbers_of(table, choice, 1.0)
    refuse_marks(table, choice, written)
    rates = written * factor
    refuse(table, choice, rates < 0.0, "is below 0; correct it or leave it empty", is_mark=True)
    is_high: BoolArray = rates > MAX_BIT_PER_S
    refuse(table, choice, is_high, f"is beyond {MAX_BIT_PER_S:g} bit/s; check the unit")
    return rates
