"""Keys of a JSON Schema with what explains them: type, range, default, and when they act.

Entries of lists stand as `key[]`, and those of mappings with names of the user's as `key.NAME`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetsim.schema.spelling import nearest

NO_EFFECT = "x-no-effect"
"""Extension of the schema of a key: where the key has no effect."""
USUAL_KIND = "x-usual-kind"
"""Extension of the schema of a key with kinds: the kind that is taken if none is named."""
_TAGS = ("kind", "mode")
_TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "list",
    "object": "mapping",
}
_LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}

Node = Mapping[str, Any]
"""Part of a JSON Schema."""


@dataclass(frozen=True, slots=True)
class ExplainedKey:
    """One key, in one of the alternatives that have it."""

    key: str
    """Path, such as `server.deadline_s`."""
    beside: tuple[str, ...]
    """Kinds around it, such as `server.mode: buffered`, from the outside."""
    type: str
    range: str
    """Limits, such as `> 0 and <= 1`; empty: none."""
    default: str | None
    """Default as YAML; None: the key is required."""
    description: str
    no_effect: str
    """Condition under which it has no effect, with a hint; empty: it always acts."""
    kinds: Mapping[str, str]
    """Kinds of a mapping that has kinds, with the description of each one."""

    @property
    def facts(self) -> list[str]:
        """Type, limits and default in words."""
        default = "required" if self.default is None else f"default {self.default}"
        return [text for text in (self.type, self.range, default) if text]


def explained_keys(schema: Node) -> list[ExplainedKey]:
    """Return all keys of a schema in its order, those of each alternative apart."""
    return list(_Walk(schema.get("$defs", {})).keys(schema, "", ()))


def of_key(keys: list[ExplainedKey], key: str) -> list[ExplainedKey]:
    """Return what explains a key; alternatives that share it and differ in their kinds are one."""
    result: dict[tuple[object, ...], ExplainedKey] = {}
    for each in keys:
        if each.key == key:
            same = (each.type, each.range, each.default, each.description, each.no_effect)
            before = result.get(same)
            beside = each.beside if before is None else _joined_kinds(before.beside, each.beside)
            result[same] = ExplainedKey(each.key, beside, *same, each.kinds)
    return list(result.values())


def namesake(keys: list[ExplainedKey], unknown: str) -> str | None:
    """Return the key with the same last word that has most in common with an unknown one's path."""
    *outer, last = unknown.split(".")
    same = dict.fromkeys(each.key for each in keys if each.key.split(".")[-1] == last)

    def distance(name: str) -> tuple[int, int]:
        words = name.split(".")
        return -sum(word in words for word in outer), len(words)

    return min(same, key=distance, default=None)


def keys_called(keys: list[ExplainedKey], word: str) -> list[str]:
    """Return the keys whose last word is this one, with or without a unit; empty for a path."""
    names = dict.fromkeys(each.key for each in keys)
    return [name for name in names if f"{name.split('.')[-1]}_".startswith(f"{word}_")]


def nearest_key(keys: list[ExplainedKey], unknown: str) -> str | None:
    """Return the key that an unknown one was most likely meant to be.

    It is its `namesake`, else the most similar of the keys that stand beside it, else of all.
    """
    if (same := namesake(keys, unknown)) is not None:
        return same
    names = dict.fromkeys(each.key for each in keys)
    *outer, last = unknown.split(".")
    beside = [name for name in names if name.split(".")[:-1] == outer]
    match = nearest(last, [name.split(".")[-1] for name in beside])
    return ".".join((*outer, match)) if match is not None else nearest(unknown, names)


def _joined_kinds(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of two alternatives, those of one key as `key: a, b`."""
    values: dict[str, dict[str, None]] = {}
    for each in (*one, *other):
        key, _, kinds = each.partition(": ")
        values.setdefault(key, {}).update(dict.fromkeys(kinds.split(", ")))
    return tuple(f"{key}: {', '.join(kinds)}" for key, kinds in values.items())


class _Walk:
    def __init__(self, definitions: Node) -> None:
        self._definitions = definitions

    def keys(
        self, mapping: Node, path: str, beside: tuple[str, ...], within: tuple[str, ...] = ()
    ) -> Iterator[ExplainedKey]:
        """Yield the keys of a mapping and of all below it; `within` are the classes around it."""
        required = mapping.get("required", ())
        for name, node in mapping.get("properties", {}).items():
            key = f"{path}.{name}" if path else name
            if name in _TAGS and "const" in node:
                continue  # explained once for all kinds, below
            leaves = list(self._leaves(node))
            tags = {tag: leaf for leaf in leaves if (tag := _tag(leaf)) is not None}
            default = None if name in required else _default(node)
            words = " ".join((node.get("description") or "").split())
            no_effect = node.get(NO_EFFECT, "")
            kinds = {tag: option.get("description", "") for (_, tag), option in tags.items()}
            types = _joined(map(self._type, leaves))
            limits = " and ".join(filter(None, map(_limits, leaves)))
            yield ExplainedKey(key, beside, types, limits, default, words, no_effect, kinds)
            if tags:
                choice = next(iter(tags))[0]
                given = node.get("default")
                usual = given[choice] if isinstance(given, dict) else node.get(USUAL_KIND)
                default = None if usual is None else json.dumps(usual)
                words, types = f"Choice of what stands in {key}.", " or ".join(kinds)
                yield ExplainedKey(f"{key}.{choice}", beside, types, "", default, words, "", kinds)
            for below, suffix in self._mappings(node):
                if below["title"] in within:
                    continue
                tag = _tag(below)
                inner = (*beside, f"{key}.{tag[0]}: {tag[1]}") if tag else beside
                yield from self.keys(below, key + suffix, inner, (*within, below["title"]))

    def _leaves(self, node: Node) -> Iterator[Node]:
        """Yield the alternatives of a key, with references followed."""
        if "$ref" in node:
            yield from self._leaves(self._definitions[node["$ref"].rpartition("/")[2]])
        elif branches := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
            for branch in branches:
                yield from self._leaves(branch)
        else:
            yield node

    def _mappings(self, node: Node) -> Iterator[tuple[Node, str]]:
        """Yield the settings in the alternatives of a key, with what their keys begin with."""
        for leaf in self._leaves(node):
            if "properties" in leaf:
                yield leaf, ""
            for inside, begin in (("items", "[]"), ("additionalProperties", ".NAME")):
                if isinstance(inner := leaf.get(inside), dict):
                    yield from ((below, begin + end) for below, end in self._mappings(inner))

    def _type(self, leaf: Node) -> str:
        if "const" in leaf:
            return json.dumps(leaf["const"])
        if "enum" in leaf:
            return " or ".join(map(json.dumps, leaf["enum"]))
        if "properties" in leaf:
            return "mapping"
        if pair := leaf.get("prefixItems"):
            return f"list of {len(pair)} of {_joined(map(self._type, pair))}"
        for inside, noun in (("items", "list"), ("additionalProperties", "mapping")):
            if isinstance(inner := leaf.get(inside), dict):
                return f"{noun} of {_joined(map(self._type, self._leaves(inner)))}"
        return _TYPES.get(leaf.get("type", ""), "any value")


def _tag(leaf: Node) -> tuple[str, str] | None:
    """Return the key that chooses a kind, and its value there."""
    nodes = leaf.get("properties", {})
    tags = ((name, str(nodes[name]["const"])) for name in _TAGS if "const" in nodes.get(name, {}))
    return next(tags, None)


def _default(node: Node) -> str:
    """Return the default of a key that is not required."""
    empty = {"object": "{}", "array": "[]"}.get(node.get("type", ""), "null")
    return json.dumps(node["default"]) if "default" in node else empty


def _joined(types: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(types))


def _limits(leaf: Node) -> str:
    leaf = (leaf.get("prefixItems") or [leaf])[0]
    values = leaf.get("additionalProperties")
    leaf = values if isinstance(values, dict) else leaf
    bounds = (f"{sign} {leaf[limit]:g}" for limit, sign in _LIMITS.items() if limit in leaf)
    return " and ".join(bounds)


def first_line(description: str) -> str:
    """Return the first paragraph of a description, on one line."""
    return " ".join(description.split("\n\n", maxsplit=1)[0].split())
