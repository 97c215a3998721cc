"""Numbers that a scenario can hold, the ends of their ranges, and the overrides that set them.

They are found in the settings classes, so a new selector, aggregator or key is found at once.
"""

import json
import math
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from fleetsim.settings import Settings
from tests.settings_walk import leaves


class Number(NamedTuple):
    """A number, or list of numbers, that a scenario can hold."""

    key: str
    kinds: tuple[str, ...]  # of the settings that hold it
    within: tuple[str, ...]  # overrides that make these settings
    owner: type[Settings]  # class of the innermost of them
    low: float
    high: float

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def label(self) -> str:
        return ".".join((*self.kinds, self.name))

    @property
    def usual(self) -> tuple[float, float]:
        """A small value of the range, and its middle."""
        return _usual(self.low, self.high), type(self.low)((self.low + self.high) / 2)

    def at(self, *values: float) -> str:
        """Return the override that sets the number; several values: a list of them."""
        return f"{self.key}={json.dumps(self._put(values))}"

    def ends(self) -> list[tuple[float, ...]]:
        """Return the lowest and the highest value; of a list both in one, too."""
        both = (self.low, self.high)
        return [(self.low,), (self.high,), *([both] if isinstance(self._put(both), list) else [])]

    def _put(self, values: Sequence[float]) -> Any:
        return _put(self.owner.model_fields[self.name].annotation, values)

    def modes(self) -> Iterator[tuple[str, ...]]:
        """Yield overrides of other keys of the same settings: none, then one at a time."""
        yield ()
        for name, info in self.owner.model_fields.items():
            if name not in ("kind", "mode", self.name):
                for value in choices(info):
                    yield (f"{self.key.removesuffix(self.name)}{name}={json.dumps(value)}",)


def choices(info: FieldInfo) -> list[Any]:
    """Return the words, truth values and examples of a field."""
    result = list(info.examples or ())
    for leaf in (info.annotation, *get_args(info.annotation)):
        result += get_args(leaf) if get_origin(leaf) is Literal else ()
    return [*result, True, False] if info.annotation is bool else result


def numbers_of_kinds(key: str, annotation: Any) -> list[Number]:
    """Return the numbers of each kind of settings that a key can hold."""
    return list(_below(key, annotation, (), (), (), set()))


def numbers_in(key: str, owner: type[Settings], *, leave: Sequence[str] = ()) -> list[Number]:
    """Return the numbers below settings that the scenario has already.

    Kinds that stand in several places, such as decays of each optimizer, are taken once.
    """
    return list(_in(key, owner, (), (), set(), leave))


def _below(key, annotation, metadata, kinds, within, seen) -> Iterator[Number]:
    for leaf, _ in leaves(annotation, metadata):
        if isinstance(leaf, type) and issubclass(leaf, Settings) and leaf not in seen:
            seen.add(leaf)
            made = f"{key}={json.dumps(_put(annotation, (plain(leaf),)))}"
            yield from _in(key, leaf, (*kinds, *_kind(leaf)), (*within, made), seen)


def _in(key, owner, kinds, within, seen, leave=()) -> Iterator[Number]:
    for name, info in owner.model_fields.items():
        if name not in leave:
            below, metadata = f"{key}.{name}", tuple(info.metadata)
            for leaf, limits in leaves(info.annotation, metadata):
                if leaf in (int, float):
                    yield Number(below, kinds, within, owner, *_range(leaf, limits))
            yield from _below(below, info.annotation, metadata, kinds, within, seen)


def _kind(owner: type[Settings]) -> tuple[str, ...]:
    info = owner.model_fields.get("kind")
    return () if info is None else get_args(info.annotation)[:1]


def plain(owner: type[Settings]) -> dict[str, Any]:
    """Return settings with the keys that they need, in which what takes rounds takes one."""
    result: dict[str, Any] = {}
    for name, info in owner.model_fields.items():
        if name == "kind":
            result[name] = _kind(owner)[0]
        elif info.is_required():
            result[name] = info.examples[0] if info.examples else _needed(info)
        elif "rounds" in name and isinstance(info.default, int) and info.default > 1:
            result[name] = 1
    return result


def _needed(info: FieldInfo) -> Any:
    for leaf, limits in leaves(info.annotation, tuple(info.metadata)):
        if leaf in (int, float):
            return _put(info.annotation, (_usual(*_range(leaf, limits)),))
        if isinstance(leaf, type) and issubclass(leaf, Settings):
            return _put(info.annotation, (plain(leaf),))
    (first, *_) = choices(info)
    return first


def _usual(low: float, high: float) -> float:
    return min(max(2 if isinstance(low, int) else 0.1, low), high)


def _range(number: type, limits: tuple[Any, ...]) -> tuple[float, float]:
    """Return the smallest and the largest number in a range, whose ends may be open."""

    def bounds(name, towards=None):
        ends = [getattr(item, name) for item in limits if getattr(item, name, None) is not None]
        if towards is None:
            return ends
        if number is int:
            return [end + math.copysign(1, towards) for end in ends]
        return [math.nextafter(end, towards) for end in ends]

    lows = [*bounds("ge"), *bounds("gt", math.inf)]
    highs = [*bounds("le"), *bounds("lt", -math.inf)]
    return number(max(lows)), number(min(highs))


def _put(annotation: Any, values: Sequence[Any]) -> Any:
    """Return values as a type holds them: the first alone, or in lists."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _put(args[0], values)
    if origin in (Union, UnionType):
        return _put(next(arg for arg in args if arg is not NoneType), values)
    if origin is tuple and args[-1] is Ellipsis:
        return [_put(args[0], (value,)) for value in values]
    if origin is tuple:
        return [_put(arg, values) for arg in args]
    return values[0]
