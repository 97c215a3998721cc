"""Settings classes of fleetsim, their fields and the numbers in them."""

import importlib
import pkgutil
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

import fleetsim
from fleetsim.scenario import Scenario
from fleetsim.settings import Settings


def all_classes() -> list[type[Settings]]:
    """Return all settings classes: of scenarios, and of the files that they name."""
    for module in pkgutil.walk_packages(fleetsim.__path__, "fleetsim."):
        importlib.import_module(module.name)

    def below(parent: type[Settings]) -> list[type[Settings]]:
        return [c for child in parent.__subclasses__() for c in (child, *below(child))]

    classes = {c for c in below(Settings) if c.__module__.startswith("fleetsim.")}
    return sorted(classes, key=lambda c: (c.__module__, c.__name__))


def scenario_classes() -> list[type[Settings]]:
    """Return the settings classes that a scenario can hold, itself included."""
    classes: dict[type[Settings], None] = {Scenario: None}
    waiting: list[type[Settings]] = [Scenario]
    while waiting:
        for info in waiting.pop().model_fields.values():
            for leaf, _ in leaves(info.annotation, ()):
                if isinstance(leaf, type) and issubclass(leaf, Settings) and leaf not in classes:
                    classes[leaf] = None
                    waiting.append(leaf)
    return list(classes)


def declaring(owner: type[BaseModel], name: str) -> type[BaseModel]:
    """Return the class that adds a field: `owner` or one of its parents."""
    return next(c for c in reversed(owner.__mro__) if name in getattr(c, "model_fields", ()))


def numbers(owner: type[BaseModel], name: str) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """Yield the number types that a field can hold, with the constraints on each."""
    info = owner.model_fields[name]
    for leaf, constraints in leaves(info.annotation, tuple(info.metadata)):
        if leaf in (int, float):
            yield leaf, constraints


def leaves(annotation: Any, constraints: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the innermost types of an annotation, with the constraints on each."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        added = tuple(c for item in args[1:] for c in _constraints(item))
        yield from leaves(args[0], (*constraints, *added))
    elif origin in (Union, UnionType):
        for arg in args:
            if arg is not NoneType:
                yield from leaves(arg, constraints)
    elif origin in (tuple, list, dict):
        for arg in args:
            if arg is not Ellipsis:
                yield from leaves(arg, ())
    elif origin is not Literal:
        yield annotation, constraints


def _constraints(item: Any) -> tuple[Any, ...]:
    return tuple(item.metadata) if isinstance(item, FieldInfo) else (item,)
