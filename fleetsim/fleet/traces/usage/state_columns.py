"""Columns of a table that give states: words of a flag, a load or memory.

A word means a state, or its contrary, or it is refused; words are counted, so that the owner of the
table sees what each was taken for.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.column_choice import (
    ColumnChoice,
    column_choice,
    factor_of,
    refuse,
    texts_of,
)
from fleetsim.fleet.traces.column_numbers import numbers_of
from fleetsim.fleet.traces.csv_table import CsvTable
from fleetsim.fleet.traces.usage.trace import FLAGS, STATES
from fleetsim.quoting import cut, quoted
from fleetsim.units import BYTE_OF, FRACTION_OF

_TRUE = ("1", "1.0", "true", "t", "yes", "y", "on")
_FALSE = ("0", "0.0", "false", "f", "no", "n", "off", "none")
_WORDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "online": (("online", "connected", "reachable"), ("offline", "disconnected", "unreachable")),
    "charging": (
        ("charging", "full", "plugged", "ac", "usb", "wireless", "dock"),
        ("discharging", "not_charging", "not charging", "unplugged", "battery"),
    ),
    "unmetered": (
        ("unmetered", "wifi", "wi-fi", "wlan", "ethernet"),
        (
            *("metered", "cellular", "mobile", "wwan", "lte", "nr", "2g", "3g", "4g", "5g"),
            *("not_reachable", "offline", "disconnected"),
        ),
    ),
}
"""Words of each state that mean true, and that mean false, in addition to `_TRUE` and `_FALSE`."""

_UNMEASURED = frozenset(("nan", "na", "n/a", "null", "nil", "unknown", "-", "--", "?"))
"""Words that many programs write for a value that they do not have."""
_MOST_WORDS = 8
_CORES = re.compile(r"(?:%|percent)/([1-9][0-9]{0,3})")
"""Unit of a load that adds up the cores of a processor, as `top` prints it."""
_MOST_LOAD = 0.999
"""Load of a processor that a table calls fully used: the rest is what a trace's load leaves."""


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column that gives a state, and the words in it that mean true."""

    choice: ColumnChoice
    words: frozenset[str] | None = None
    """Words, in lower case, that mean true, and all others false, which the notes count; None: the
    usual words."""


def state_column(text: str) -> tuple[str, StateColumn]:
    """Return the state and the column of `STATE=COLUMN[unit]` or `STATE=COLUMN=WORD,WORD`.

    >>> state_column("charging=plugged=ac,usb")[1].words == frozenset({"ac", "usb"})
    True
    """
    state, equals, rest = text.partition("=")
    if state not in STATES or not equals or not rest:
        raise ScenarioError(
            f"trace import table: --state {quoted(text)}: must be STATE=COLUMN or"
            f" STATE=COLUMN=WORD,WORD with a STATE of {', '.join(STATES)}"
        )
    column, equals, words = rest.partition("=")
    if equals and state not in FLAGS:
        raise ScenarioError(
            f"trace import table: --state {quoted(text)}: words are for {', '.join(FLAGS)}; drop"
            " them"
        )
    means = frozenset(word.strip().lower() for word in words.split(",")) if equals else None
    return state, StateColumn(column_choice("--state", column), means)


def values_of(table: CsvTable, state: str, column: StateColumn) -> FloatArray:
    """Return a state of every row [num_rows]; NaN where it is missing."""
    if state == "load":
        return _load(table, column.choice)
    if state == "ram_byte":
        byte = numbers_of(table, column.choice, factor_of(table, column.choice, BYTE_OF, "byte"))
        refuse(table, column.choice, byte < 0.0, "is below 0; correct it", is_mark=True)
        return np.rint(byte)
    texts = [text.lower() for text in texts_of(table, column.choice)]
    if column.words is not None:
        known = {text: float(text in column.words) for text in texts}
        if absent := sorted(column.words - known.keys()):
            table.notes.append(f"no row has {state} {', '.join(map(quoted, absent))}")
    else:
        true, false = _WORDS[state]
        known = {**dict.fromkeys(_TRUE + true, 1.0), **dict.fromkeys(_FALSE + false, 0.0)}
    values = np.array(
        [np.nan if table.layout.is_missing(text) else known.get(text, -1.0) for text in texts]
    )
    name = column.choice.column
    message = (
        f"is no word for {state} or its contrary; name the words that mean {state}, such as"
        f" --state '{state}={name}=WORD,WORD'"
    )
    refuse(table, column.choice, values < 0.0, message, is_mark=True)
    for value in (1.0, 0.0):
        words = Counter(
            text for text, number in zip(texts, values.tolist(), strict=True) if number == value
        )
        table.notes.extend(_counted_words(state, value, words))
    return values


def _load(table: CsvTable, choice: ColumnChoice) -> FloatArray:
    """Return the load of every row as a fraction [num_rows]; NaN where it is missing."""
    cores = _CORES.fullmatch(choice.unit or "")
    if cores is not None:
        load = numbers_of(table, choice, 1.0) / (100 * int(cores[1]))
        message = (
            f"is outside 0 to {100 * int(cores[1])} %, the sum of {cores[1]} cores; correct it"
        )
    else:
        factor = factor_of(table, choice, FRACTION_OF, "fraction")
        load = numbers_of(table, choice, factor)
        cores_of = f"name the cores, such as --state 'load={choice.column}[%/8]'"
        message = (
            f"is outside 0 to 100 %; correct it, or, if the column adds up cores, {cores_of}"
            if factor < 1.0
            else f"is outside 0 to 1; name the unit, such as --state 'load={choice.column}[%]'"
        )
    refuse(table, choice, (load < 0.0) | (load > 1.0), message)
    return np.minimum(load, _MOST_LOAD)


def _counted_words(state: str, value: float, num: Counter[str]) -> list[str]:
    """Return a note on the words of a column that mean a state, or its contrary."""
    if not num:
        return []
    listed = [f"{cut(word)} ({rows})" for word, rows in num.most_common(_MOST_WORDS)]
    more = f" and {len(num) - _MOST_WORDS} other words" if len(num) > _MOST_WORDS else ""
    hint = "" if _UNMEASURED.isdisjoint(num) else "; --missing WORD if one was not measured"
    return [f"{state} {value:g}: {', '.join(listed)}{more}{hint}"]
