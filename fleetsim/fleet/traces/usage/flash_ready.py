"""Ready times of FLASH: intervals in which a phone may train, without the events behind them.

Two published forms (Yang et al., WWW 2021; PKU-Chengxu/FLASH), times in seconds after a midnight:

- `ready_strict.json`, `ready_loose.json`: {USER: [[start, end], ...]}. No span is stated: a record
  is the whole days around a user's intervals.
- the cache of `models/timer.py` (FLASH@70e47eb), as FLHetBench publishes it in
  `data/cached_timers.json`: {GUID: {"isSuccess", "trace_start", "trace_end", "ready_time"}}.

A phone is online, charging and unmetered while it is ready, and none of them otherwise.
"""

import math
from collections import Counter
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.json_object import read_json_object
from fleetsim.fleet.traces.usage.records import (
    DAY_S,
    UnusableError,
    UsageRecords,
    trace_of_intervals,
    united,
    usable,
)

_MOST_S = 1e11
_SPAN = ("trace_start", "trace_end")


def read_flash_ready(path: Path) -> UsageRecords:
    """Read ready times; phones without a usable interval are left out and counted in the notes.

    Overlapping and touching intervals become their union, unordered ones are sorted, those that
    last no second are dropped, and those that leave the span of the log are cut; all are counted.
    """
    document = read_json_object(path, holds="phones, each with [start, end] intervals")
    changed: Counter[str] = Counter()
    phones, left_out = usable(path, document, partial(_phone, path, changed), what="phones")
    of_phones, begins_s, ends_s = zip(*phones.values(), strict=True)
    begin_s, end_s = np.array([begins_s, ends_s], dtype=np.int64)
    user = np.repeat(np.arange(len(phones)), list(map(len, of_phones)))
    pairs: IntArray = np.array(list(chain.from_iterable(of_phones)))
    opens, stop_s = united(user, pairs[:, 0], pairs[:, 1])
    changed["overlap or touch the one before; joined to their union"] = len(pairs) - opens.size
    user, start_s = user[opens], pairs[opens, 0]
    trace = trace_of_intervals(
        str(path),
        tuple(phones),
        end_s - begin_s,
        user,
        start_s - begin_s[user],
        stop_s - begin_s[user],
    )
    notes = (f"{left_out[0]}, {opens.size} intervals", *left_out[1:])
    notes += tuple(f"{num} intervals {what}" for what, num in sorted((+changed).items()))
    return UsageRecords(trace, begin_s % DAY_S, np.zeros_like(begin_s), notes)


def _phone(
    path: Path, changed: Counter[str], name: str, fields: Any
) -> tuple[list[tuple[int, int]], int, int]:
    """Return a phone's sorted intervals, begin and end, and count in `changed` those dropped."""
    span: tuple[int, int] | None = None
    listed = fields
    if isinstance(fields, dict):
        listed = fields.get("ready_time")
        if fields.get("isSuccess") is False:
            raise UnusableError("without a readable log")
        begin, end = (_number(fields.get(key)) for key in _SPAN)
        if not begin < end:
            raise UnusableError("without a span")
        span = math.floor(begin), math.floor(end)
    if not isinstance(listed, list):
        raise DataError(
            f"{path}: phone {name!a} has no list of [start, end] intervals; add or drop it"
        )
    pairs: list[tuple[int, int]] = []
    for number, pair in enumerate(listed, start=1):
        if not (isinstance(pair, list) and len(pair) == 2 and all(map(_is_time, pair))):
            raise DataError(
                f"{path}: phone {name!a}, interval {number}: is not [start, end] in seconds;"
                " correct or drop it"
            )
        pairs.append((math.floor(pair[0]), math.floor(pair[1])))
    is_kept = [start < end for start, end in pairs]
    changed["dropped that last no second"] += is_kept.count(False)
    kept = [pair for pair, is_one in zip(pairs, is_kept, strict=True) if is_one]
    if span is not None:
        cut = [(max(start, span[0]), min(end, span[1])) for start, end in kept]
        changed["cut to the span of their log"] += sum(
            a != b for a, b in zip(cut, kept, strict=True)
        )
        kept = [(start, end) for start, end in cut if start < end]
    if not kept:
        raise UnusableError("never ready")
    changed["not in order of time; sorted"] += sum(
        later < earlier for earlier, later in pairwise(kept)
    )
    if span is None:
        last = max(stop for _, stop in kept)
        span = min(kept)[0] // DAY_S * DAY_S, -(-last // DAY_S) * DAY_S
    return sorted(kept), *span


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < _MOST_S


def _number(value: Any) -> float:
    return float(value) if _is_time(value) else math.nan
