"""A plain checker of JSON Schema, for the keywords that schemas of this project use."""

import re
from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, Any] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}
_NO_RULES = {
    *("$defs", "$schema", "additionalProperties", "default", "description", "discriminator"),
    *("patternProperties", "title"),
}
"""Keywords that say nothing on a value, or that `_parts` follows."""


def faults(value: Any, schema: Any, root: Any, at: str = "") -> list[str]:
    """Return the places where a value breaks a schema, with the keyword that it breaks."""
    found = [f"{at}: {key}" for key, rule in schema.items() if not _holds(key, rule, value, root)]
    for name, item, part in _parts(value, schema):
        found += faults(item, part, root, f"{at}/{name}") if part else []
        found += [f"{at}/{name}: additionalProperties"] if part is False else []
    return found


def _holds(key: str, rule: Any, value: Any, root: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    length = len(value) if isinstance(value, dict | list | str) else None
    match key:
        case "$ref":
            return not faults(value, root["$defs"][rule.rpartition("/")[2]], root)
        case "anyOf":
            return any(not faults(value, one, root) for one in rule)
        case "oneOf":
            return sum(not faults(value, one, root) for one in rule) == 1
        case "type":
            return bool(_TYPES[rule](value))
        case "const":
            return bool(value == rule)
        case "enum":
            return value in rule
        case "pattern":
            return not isinstance(value, str) or re.search(rule, value) is not None
        case "minimum":
            return not is_number or value >= rule
        case "maximum":
            return not is_number or value <= rule
        case "exclusiveMinimum":
            return not is_number or value > rule
        case "exclusiveMaximum":
            return not is_number or value < rule
        case "minItems" | "minLength" | "minProperties":
            return length is None or length >= rule
        case "maxItems" | "maxLength" | "maxProperties":
            return length is None or length <= rule
        case "uniqueItems":
            return not isinstance(value, list) or len({*map(repr, value)}) == len(value)
        case "required":
            return not isinstance(value, dict) or value.keys() >= set(rule)
        case "properties" | "items" | "prefixItems":
            return True
    assert key in _NO_RULES, f"{key} has no rule here"
    return True


def _parts(value: Any, schema: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield name, item and schema of the items of a value; False refuses an item."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name in schema.get("properties", {}):
                yield name, item, schema["properties"][name]
                continue
            fitting = [
                part
                for pattern, part in schema.get("patternProperties", {}).items()
                if re.search(pattern, name)
            ]
            more = schema.get("additionalProperties", True)
            yield name, item, fitting[0] if fitting else {} if more is True else more
    if isinstance(value, list):
        first = schema.get("prefixItems", ())
        for number, item in enumerate(value):
            rest = schema.get("items", {})
            yield number, item, first[number] if number < len(first) else rest
