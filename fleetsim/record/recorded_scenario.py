"""The scenario of a saved run as plain data, whose keys that readers use have their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fleetsim.errors import DataError
from fleetsim.quoting import quoted

_MOST: Final = 10**9


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _MOST


def _is_quantity(value: Any) -> bool:
    return type(value) in (int, float) and 0.0 < value <= _MOST


def _is_keys(value: Any) -> bool:
    return isinstance(value, dict)


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _is_clients(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(each) is int and 0 <= each < _MOST for each in value
    )


_READ: Final[dict[tuple[str, ...], tuple[Callable[[Any], bool], str]]] = {
    ("task",): (_is_keys, "keys"),
    ("fleet",): (_is_keys, "keys"),
    ("server",): (_is_keys, "keys"),
    ("stop",): (_is_keys, "keys"),
    ("fleet", "size"): (_is_count, "a number of clients"),
    ("fleet", "thermal"): (_is_keys, "keys"),
    ("stop", "rounds"): (_is_count, "a number of rounds"),
    ("server", "deadline_s"): (_is_quantity, "a number of seconds"),
    ("server", "privacy"): (_is_keys, "keys"),
    ("server", "privacy", "delta"): (_is_quantity, "a number above 0"),
    ("server", "selector"): (_is_keys, "keys"),
    ("server", "selector", "kind"): (_is_word, "a word"),
    ("server", "selector", "slot_rounds"): (_is_count, "a number of rounds"),
    ("server", "selector", "clients"): (_is_clients, "a list of clients"),
}
"""Keys that reports and measures read, with what they must be where they are not null."""


_NEVER_NULL: Final = frozenset(
    {*((key,) for key in ("task", "fleet", "server", "stop")), ("fleet", "size")}
    | {("server", "privacy", "delta"), ("server", "selector", "kind")}
)


class _Recorded(dict[str, Any]):
    """Keys of a scenario as recorded, which anyone may have edited."""

    place: str
    way_out: str

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{self.place}: lacks the key {key}; restore the file, or {self.way_out}")


def recorded(data: dict[str, Any], place: str, way_out: str) -> dict[str, Any]:
    """Return plain data of which a missing key, or one of another type, is an error of the file.

    Raises:
        DataError: a key that readers use is of another type.
    """
    for key_path, (is_right, what) in _READ.items():
        owner, last = data, key_path[-1]
        for key in key_path[:-1]:
            owner = owner.get(key) or {}  # of the right type: it stands before
        value = owner.get(last)
        may_be_null = last not in owner or key_path not in _NEVER_NULL
        if not (is_right(value) or (value is None and may_be_null)):
            told = f"{'.'.join(key_path)} = {quoted(value)}: must be {what}"
            raise DataError(f"{place}: {told}; restore the file, or {way_out}")
    return _with_place(data, place, way_out)


def _with_place(data: dict[str, Any], place: str, way_out: str) -> dict[str, Any]:
    found = _Recorded(
        (key, _with_place(value, place, way_out) if isinstance(value, dict) else value)
        for key, value in data.items()
    )
    found.place, found.way_out = place, way_out
    return found
