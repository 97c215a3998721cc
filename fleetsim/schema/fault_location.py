"""Key, settings class and limits that a pydantic error location refers to.

A pydantic location mixes keys with labels of union members: `("selector", "oort", "alpha")` is the
key `selector.alpha` of the class with the tag `oort`. Only the core schema, by which pydantic
validates, distinguishes them, so it is followed along the location.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from fleetsim.schema.strict_yaml import KeyPath

Node = Mapping[str, Any]
"""Part of a core schema (`pydantic_core.core_schema`); empty where the location is unknown."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The place that a location refers to."""

    key_path: KeyPath
    node: Node
    """Schema of the value there, or of the key if `is_key`."""
    tags: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """Settings classes that are allowed there by their tags, if they have tags."""
    owner: type[BaseModel] | None = None
    """Settings class of the last key, known to it or not."""
    alternatives: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """All alternatives to the owner by their tags, if they have tags."""
    keys: Node = field(default_factory=dict)
    """Schema of the last key, if that is a key of a mapping."""
    is_key: bool = False
    """True if the location refers to a key of a mapping, not to its value."""
    is_branch: bool = False
    """True if the last step was the label of one alternative."""

    @property
    def discriminator(self) -> str | None:
        """Key that distinguishes the alternatives; None if there is no such key."""
        return self.node.get("discriminator")

    def limits(self) -> str:
        """Return limits such as `> 0 and <= 1`, the tightest on each side; may be empty."""
        node = self.node
        least = max(((node[by], by == "gt") for by in ("ge", "gt") if by in node), default=None)
        most = min(((node[by], by == "le") for by in ("le", "lt") if by in node), default=None)
        bounds = []
        if least is not None:
            bounds.append(f"{'>' if least[1] else '>='} {str(least[0]).removesuffix('.0')}")
        if most is not None:
            bounds.append(f"{'<=' if most[1] else '<'} {str(most[0]).removesuffix('.0')}")
        return " and ".join(bounds)


class Locator:
    """Resolver of locations below a class; common parts are followed once, as faults are many."""

    def __init__(self, model: type[BaseModel]) -> None:
        schema: Node = model.__pydantic_core_schema__
        self._definitions = {each["ref"]: each for each in schema.get("definitions", ())}
        self._places: dict[KeyPath, KeyPlace] = {(): KeyPlace((), self._plain(schema))}

    def locate(self, location: KeyPath, *, is_kept: bool = False) -> KeyPlace:
        """Return the place that a location refers to; keep it for longer ones if `is_kept`."""
        if (known := self._places.get(location)) is not None:
            return known
        place = self._next(self.locate(location[:-1], is_kept=True), location[-1])
        if "discriminator" in place.node:
            choices = place.node["choices"].items()
            place = replace(place, tags={str(tag): self._plain(one)["cls"] for tag, one in choices})
        if is_kept:
            self._places[location] = place
        return place

    def _next(self, place: KeyPlace, step: str | int) -> KeyPlace:
        """Return the place after one more step, without its tags."""
        node = place.node
        if place.is_key:
            return place
        if step == "[key]":
            return replace(place, node=place.keys, is_key=True)
        if "choices" in node:
            chosen = self._chosen(node["choices"], str(step))
            return replace(
                place, node=chosen, tags={}, alternatives=place.tags, keys={}, is_branch=True
            )
        return KeyPlace(
            (*place.key_path, step),
            self._below(node, step),
            owner=node.get("cls"),
            alternatives=place.alternatives if place.is_branch else {},
            keys=self._plain(node.get("keys_schema", {})),
        )

    def _chosen(self, choices: Any, label: str) -> Node:
        """Return the choice with a pydantic label: a tag, or a text with the name of its type."""
        if isinstance(choices, dict):
            return self._plain(choices.get(label, {}))
        for choice in map(self._plain, choices):
            name = choice["cls"].__name__ if "cls" in choice else choice["type"]
            if re.search(rf"\b{re.escape(name)}\b", label):
                return choice
        return {}

    def _below(self, node: Node, step: str | int) -> Node:
        match node.get("type"):
            case "model":
                fields = self._plain(node["schema"])["fields"].items()
                matches = [
                    one for name, one in fields if step in (name, one.get("validation_alias"))
                ]
            case "dict":
                matches = [node["values_schema"]]
            case "list":
                matches = [node["items_schema"]]
            case "tuple":
                index = min(int(step), node.get("variadic_item_index", step))
                matches = node["items_schema"][index : index + 1]
            case _:
                matches = []
        return self._plain(matches[0]) if matches else {}

    def _plain(self, node: Node) -> Node:
        """Return a part of the schema without defaults, validators and None around it."""
        while node.get("type") != "model":
            if "schema_ref" in node:
                node = self._definitions[node["schema_ref"]]
            elif "schema" in node:
                node = node["schema"]
            else:
                break
        return node


def keys_of(model: type[BaseModel]) -> list[str]:
    """Return the keys of a settings class, in the order of its fields."""
    return [info.alias or name for name, info in model.model_fields.items()]
