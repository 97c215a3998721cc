"""Unit that the name of a column states, by whole words.

`power_kW`, `timestamp[ms]`, `voltage/mV` and `elapsed_millis` state one. `power`, `phase_A` and
`POWER_MW` state none, and nothing is guessed: the last letter of `kW` is not its unit.
"""

import re
from collections.abc import Mapping
from typing import Final

_IN_BRACKETS = re.compile(r"[(\[]\s*([^()\[\]]*?)\s*[)\]]\s*$")
_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9%]+|(?<=[a-z0-9]{2})(?=[A-Z])")
_PREFIXES: Final = {"": "", "kilo": "k", "milli": "m", "micro": "u", "nano": "n"}
_BASES: Final = {"s": ("second", "sec"), "W": ("watt",), "A": ("ampere", "amp"), "V": ("volt",)}
_SPELLED = {
    f"{prefix}{word}{plural}": f"{sign}{unit}"
    for unit, words in _BASES.items()
    for word in words
    for prefix, sign in _PREFIXES.items()
    for plural in ("", "s")
}
_SPELLED |= {f"{prefix}sec": f"{prefix}s" for prefix in ("m", "u", "n")}
_SPELLED |= {"millis": "ms", "micros": "us", "nanos": "ns"}
_SPELLED |= {"minute": "min", "minutes": "min", "hour": "h", "hours": "h", "day": "d", "days": "d"}
_SPELLED |= {"percent": "%", "pct": "%", "bytes": "byte"}
"""Unit of each word that is written out."""

QUANTITY_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "time": frozenset(("time", "timestamp", "timestamps", "ts", "t", "date", "datetime", "clock"))
    | frozenset(("elapsed", "since", "epoch", "unix", "uptime", "realtime", "seconds", "millis")),
    "power": frozenset(("power", "pwr", "p", "watt", "watts")),
    "current": frozenset(("current", "cur", "i", "amp", "amps", "ampere", "amperes")),
    "voltage": frozenset(("voltage", "volt", "volts", "v", "u", "vbat", "vbus")),
}
_QUANTITY_OF: Final = {**dict.fromkeys("shd", "time"), "w": "power", "a": "current", "v": "voltage"}
"""Quantity that a unit of one letter must stand beside: `phase_A` is no current."""


def words_of(name: str) -> list[str]:
    """Return the words of a name, as they are spelled.

    >>> words_of("batteryCurrent_uA"), words_of("Main Avg Power (mW)")
    (['battery', 'Current', 'uA'], ['Main', 'Avg', 'Power', 'mW'])
    """
    return [word for word in _BETWEEN_WORDS.split(_plain(name)) if word]


def is_named(name: str, quantity: str) -> bool:
    """Return True for the name of a column with a word for the quantity."""
    return not QUANTITY_WORDS[quantity].isdisjoint(word.lower() for word in words_of(name))


def unit_in(name: str, units: Mapping[str, float]) -> str | None:
    """Return the one of these units that a name states; None: it states none.

    A unit stands in brackets at the end, or is the last word, or a word of more than one letter.

    >>> from fleetsim.units import S_OF, W_OF
    >>> [unit_in(name, W_OF) for name in ("power_kW", "P (mW)", "P in W", "power_mw", "POWER_MW")]
    ['kW', 'mW', 'W', 'mW', None]
    >>> [unit_in(name, S_OF) for name in ("ms", "t[us]", "timeMillis", "d", "steps", "energy_uWs")]
    ['ms', 'us', 'ms', None, None, None]
    """
    inside = _IN_BRACKETS.search(_plain(name))
    if inside is not None:
        return _unit(inside[1], units)
    words = words_of(name)
    if len(words) == 1:
        unit = _unit(words[0], units)
        return None if unit in ("h", "d", "min") else unit
    for place, word in enumerate(reversed(words)):
        unit = _unit(word, units)
        is_letter = len(word) == 1 and (place > 0 or not _stands_by(words[:-1], word))
        if unit is not None and not is_letter:
            return unit
    return None


def _stands_by(words: list[str], letter: str) -> bool:
    """Return True for a last letter that is a unit by the words before it."""
    quantity = _QUANTITY_OF.get(letter.lower())
    if quantity is None or words[-1] == "in":
        return True
    return not QUANTITY_WORDS[quantity].isdisjoint(word.lower() for word in words)


def _unit(text: str, units: Mapping[str, float]) -> str | None:
    """Return the unit that a word spells."""
    if text in units:
        return text
    word = _SPELLED.get(text.lower())
    if word in units:
        return word
    # `power_mw` and `currentMa` are milli; MW could be mega, so capitals alone are not folded.
    is_folded = text.islower() or text.istitle() or (text.isupper() and text[:1] in "UNK")
    result = [unit for unit in units if unit.lower() == text.lower()]
    return result[0] if is_folded and len(result) == 1 else None


def _plain(name: str) -> str:
    """Return a name with u for the micro sign."""
    return name.replace("\u00b5", "u").replace("\u03bc", "u")
