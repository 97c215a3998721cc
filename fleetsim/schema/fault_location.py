"""Key, settings class and limits that a pydantic error location refers to.

A pydantic location mixes keys with labels of union members: `("selector", "oort", "alpha")` is the
key `selector.alpha` of the class with the tag `oort`. Only the annotations distinguish them, so
they are followed along the location.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fleetsim.schema.strict_yaml import KeyPath


@dataclass(frozen=True, slots=True)
class Expected:
    """Types that are allowed at a key, and its limits."""

    types: tuple[Any, ...]
    """Alternatives without None; empty if the annotations do not say."""
    metadata: tuple[Any, ...] = ()

    @property
    def discriminator(self) -> str | None:
        """Key that distinguishes the alternatives; None if there is no such key."""
        for item in self.metadata:
            if isinstance(name := getattr(item, "discriminator", None), str):
                return name
        return None

    def tags(self) -> dict[str, type[BaseModel]]:
        """Return settings classes by values of the discriminator."""
        if (name := self.discriminator) is None:
            return {}
        return {
            str(tag): model
            for alternative in self.types
            for model in _peeled(alternative).types
            for tag in get_args(model.model_fields[name].annotation)
        }

    def limits(self) -> str:
        """Return limits such as `> 0 and <= 1`, the tightest on each side; may be empty."""

        def bounds(name: str) -> Iterator[Any]:
            for item in _flat(self.metadata):
                if (bound := getattr(item, name, None)) is not None:
                    yield bound

        above = [(bound, True) for bound in bounds("gt")]
        least = max([*above, *((bound, False) for bound in bounds("ge"))], default=None)
        below = [(bound, False) for bound in bounds("lt")]
        most = min([*below, *((bound, True) for bound in bounds("le"))], default=None)
        found = []
        if least is not None:
            found.append(f"{'>' if least[1] else '>='} {str(least[0]).removesuffix('.0')}")
        if most is not None:
            found.append(f"{'<=' if most[1] else '<'} {str(most[0]).removesuffix('.0')}")
        return " and ".join(found)


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The place that a location refers to."""

    key_path: KeyPath
    expected: Expected
    """Allowed values there, or allowed keys if `is_key`."""
    owner: type[BaseModel] | None = None
    """Settings class of the last key, known to it or not."""
    alternatives: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """All alternatives to the owner by their tags, if they have tags."""
    is_key: bool = False
    """True if the location refers to a key of a mapping, not to its value."""
    is_branch: bool = False
    """True if the last step was the label of one alternative."""


class Locator:
    """Resolver of pydantic locations, from a settings class downwards.

    The common part of two locations is followed once: a list of a hundred thousand wrong numbers
    costs one step for each.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._walked: dict[tuple[str | int, ...], _Walk] = {
            (): _Walk(KeyPlace((), Expected((model,))))
        }

    def locate(self, location: tuple[str | int, ...]) -> KeyPlace:
        """Return the place that a location refers to."""
        return self._walk(location, is_kept=False).place

    def _walk(self, location: tuple[str | int, ...], *, is_kept: bool) -> _Walk:
        known = self._walked.get(location)
        if known is not None:
            return known
        walked = self._walk(location[:-1], is_kept=True).on(location[-1])
        if is_kept:
            self._walked[location] = walked
        return walked


@dataclass(frozen=True, slots=True)
class _Walk:
    """A location followed so far."""

    place: KeyPlace
    alternatives: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """Alternatives of the last step, by their tags."""
    keys: Expected = Expected(())
    """Allowed keys of the mapping, if the last step led to one of its values."""

    def on(self, step: str | int) -> _Walk:
        """Return the walk after one more step."""
        expected = self.place.expected
        if self.place.is_key:
            return self
        if step == "[key]":
            return _Walk(KeyPlace(self.place.key_path, self.keys, is_key=True))
        if len(expected.types) > 1:
            below = _branch(expected, str(step))
            place = replace(self.place, expected=below, is_branch=True)
            return _Walk(place, expected.tags(), self.keys)
        here = expected.types[0] if expected.types else None
        keys = _peeled(get_args(here)[0]) if get_args(here) else Expected(())
        owner = here if isinstance(here, type) and issubclass(here, BaseModel) else None
        below = _field(owner, str(step)) if owner else _element(here, step)
        return _Walk(
            KeyPlace((*self.place.key_path, step), below, owner, self.alternatives), {}, keys
        )


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of a settings class, in the order of its fields."""
    return [info.alias or name for name, info in model.model_fields.items()]


def _field(model: type[BaseModel], key: str) -> Expected:
    for name, info in model.model_fields.items():
        if key in (name, info.alias):
            below = _peeled(info.annotation)
            return Expected(below.types, (info, *below.metadata))
    return Expected(())


def _element(container: Any, step: str | int) -> Expected:
    """Return what is allowed below a list index or mapping key."""
    items = [item for item in get_args(container) if item is not Ellipsis]
    if isinstance(step, int):
        fixed = get_origin(container) is tuple and Ellipsis not in get_args(container)
        index = step if fixed else 0
        return _peeled(items[index]) if index < len(items) else Expected(())
    return _peeled(items[-1]) if len(items) == 2 else Expected(())


def _branch(expected: Expected, label: str) -> Expected:
    """Return the alternative with a pydantic label: a tag, or the names of its types."""
    if (tagged := expected.tags().get(label)) is not None:
        return Expected((tagged,))
    for alternative in expected.types:
        below = _peeled(alternative)
        if below.types and all(re.search(_label(item), label) for item in below.types):
            return below
    return Expected(())


def _label(alternative: Any) -> str:
    """Return a pattern of pydantic's name of a type: a word, or `literal[...]`."""
    origin = get_origin(alternative) or alternative
    name = "literal" if origin is Literal else getattr(origin, "__name__", str(origin))
    return rf"\b{re.escape(name)}\b"


def _peeled(annotation: Any) -> Expected:
    """Return an annotation without Annotated and None."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += tuple(more)
        elif get_origin(annotation) in (Union, UnionType):
            members = tuple(item for item in get_args(annotation) if item is not NoneType)
            if len(members) > 1:
                return Expected(members, metadata)
            annotation = members[0]
        else:
            return Expected((annotation,), metadata)


def _flat(metadata: tuple[Any, ...]) -> Iterator[Any]:
    """Yield constraints, with those of a FieldInfo."""
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from _flat(tuple(item.metadata))
        else:
            yield item
