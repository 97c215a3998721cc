"""Damaged YAML documents: keys exchanged, removed, misspelt, and values at and beyond their bounds.

New values come from the JSON Schema of scenarios, so that they are often valid but
unusual, and from a list of values on which programs often fail.
"""

import copy
import functools
from collections.abc import Sequence
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from tests.fuzz import damage

JUNK: Final[list[Any]] = [
    None, True, False, 0, 1, -1, 2, 1e-300, 5e-324, 1e300, -0.0, 1e9, 2**31, 2**63, 2**64, 10**30,
    float("nan"), float("inf"), float("-inf"), "", " ", "nan", "1e3", "0x10", "none", "null", "~",
    "random", "~nobody/x", "/", "/dev/null", "/etc/shadow", ".", "..", "a/b", "x" * 300, "x\0y",
    "\ud7ff\u202e", "'; drop", "\x1b[31m", "{}", "a\nb", "2026-01-01", [], [[]], [1], [1, 2, 3],
    ["a", "a"], {}, {"a": 1}, {"kind": "random"}, {"": 0}, {1: 2}, [None], [0.5, 0.1], "digits",
    "wifi", "pixel-6", "oort",
]  # fmt: skip
"""Values for any place."""

_BLOCKS: Final = [
    "\t", "- ", "? ", "&a ", "*a", "<<: *a", "!!python/object:os.system x", "!!binary aGk=", "|\n",
    "%", "---\n", "...\n", "#", ": ", "'", '"', "{", "[", "}", "\x00", "\x85", "0o17", "1_000",
    "12:30:00", "yes",
]  # fmt: skip
"""Pieces of YAML's own syntax."""


def paths_of(document: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return all key paths of a document, in its order."""
    items: Any = ()
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
    return [
        path for key, value in items for path in ((*above, key), *paths_of(value, (*above, key)))
    ]


def value_at(document: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a key path."""
    return functools.reduce(lambda part, key: part[key], path, document)


@st.composite
def of_schema(draw: st.DrawFn, schema: Any, defs: dict[str, Any], depth: int = 0) -> Any:
    """Draw a value that a part of a JSON Schema allows, often at a bound."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[1]]
    for alternatives in ("oneOf", "anyOf"):
        if alternatives in schema:
            chosen = draw(st.sampled_from(schema[alternatives]))
            return draw(of_schema(chosen, defs, depth))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema.get("type"):
        case "object":
            return _mapping(draw, schema, defs, depth)
        case "array" if "prefixItems" in schema:
            return [draw(of_schema(part, defs, depth + 1)) for part in schema["prefixItems"]]
        case "array":
            least = schema.get("minItems", 0)
            length = draw(st.integers(least, max(least, min(schema.get("maxItems", 3), 3))))
            part = schema.get("items", {})
            return [draw(of_schema(part, defs, depth + 1)) for _ in range(length)]
        case "number" | "integer" as kind:
            usual: list[float] = [0.0, 0.1, 0.5, 1.0, 3.3, 60.0, 1e4]
            steps: list[float] = [-1e-9, 0.0, 1e-9]
            if kind == "integer":
                usual, steps = [0, 1, 2, 7, 100], [-1, 0, 1]
            ends = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
            bounds = [schema[name] for name in ends if name in schema]
            return draw(st.sampled_from(usual + [end + step for end in bounds for step in steps]))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case _:
            return draw(st.sampled_from(["", "a", "mean", "pixel-6", "people-week", "lte", "./a"]))


def _mapping(draw: st.DrawFn, schema: Any, defs: dict[str, Any], depth: int) -> Any:
    values = {}
    for name, part in schema.get("properties", {}).items():
        is_due = name in schema.get("required", ()) or name == "kind"
        if is_due or draw(st.integers(0, 2 + depth)) == 0:
            values[name] = draw(of_schema(part, defs, depth + 1))
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        for name in draw(st.lists(st.sampled_from(["pixel-6", "t2.small", "x"]), max_size=2)):
            values[name] = draw(of_schema(more, defs, depth + 1))
    return values


@st.composite
def damaged(
    draw: st.DrawFn,
    documents: list[Any],
    schema: dict[str, Any] | None = None,
    junk: Sequence[Any] = JUNK,
) -> dict[str, Any]:
    """Draw one of these documents with one to four changes."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 4))):
        paths = paths_of(document)
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        *above, last = path
        owner = value_at(document, above)
        match draw(st.sampled_from(["junk", "schema", "schema", "remove", "rename", "graft"])):
            case "junk":
                owner[last] = copy.deepcopy(draw(st.sampled_from(junk)))
            case "schema" if schema is not None:
                part = _part(schema, document, path)
                if part is not None:
                    owner[last] = draw(of_schema(part, schema.get("$defs", {})))
            case "remove":
                del owner[last]
            case "rename" if isinstance(owner, dict):
                other = draw(st.sampled_from([f"{last}s", str(last)[:-1] or "x", "kind"]))
                owner[other] = owner.pop(last)
            case _:
                source = draw(st.sampled_from(documents))
                value = value_at(source, draw(st.sampled_from(paths_of(source))))
                owner[last] = copy.deepcopy(value)
    return document


def _part(schema: dict[str, Any], document: Any, path: Sequence[str | int]) -> Any:
    """Return the part of a schema at a key path; None if the schema has none."""
    part: Any = schema
    for key in path:
        part = _resolved(part, schema, document)
        document = document[key]
        if isinstance(key, int):
            part = part.get("items")
        else:
            more = part.get("additionalProperties")
            part = part.get("properties", {}).get(key, more if isinstance(more, dict) else None)
        if part is None:
            return None
    return part


def _resolved(part: Any, schema: dict[str, Any], value: Any) -> Any:
    """Return the mapping or list that a part of a schema refers to, by the `kind` of a value."""
    for _ in range(8):
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
        elif "discriminator" in part:
            chooser = part["discriminator"]
            chosen = value.get(chooser["propertyName"]) if isinstance(value, dict) else None
            mapping = chooser["mapping"]
            name = chosen if isinstance(chosen, str) and chosen in mapping else next(iter(mapping))
            part = {"$ref": mapping[name]}
        elif "anyOf" in part:
            part = part["anyOf"][0]
        else:
            break
    return part


@st.composite
def encoded(draw: st.DrawFn, document: Any) -> bytes:
    """Draw a document as a YAML file, one in five with damaged text, one in ten with bytes."""
    text = yaml.safe_dump(
        document, allow_unicode=draw(st.booleans()), sort_keys=False, default_flow_style=None
    )
    if draw(st.integers(0, 4)) == 0:
        text = _damaged_text(draw, text)
    content = text.encode("utf-8", "surrogatepass")
    return draw(damage.damaged(content)) if draw(st.integers(0, 9)) == 0 else content


def _damaged_text(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    place, other = (draw(st.integers(0, max(len(lines) - 1, 0))) for _ in range(2))
    match draw(st.sampled_from(["block", "double", "swap", "indent", "deep", "aliases"])):
        case "block":
            begin = draw(st.integers(0, len(text)))
            return text[:begin] + draw(st.sampled_from(_BLOCKS)) + text[begin:]
        case "double":
            lines.insert(place, lines[place])
        case "swap":
            lines[place], lines[other] = lines[other], lines[place]
        case "indent":
            lines[place] = draw(st.sampled_from([" ", "  ", "\t"])) + lines[place]
        case "deep":
            lines[place] = "x: " + "[" * draw(st.sampled_from([50, 2000])) + "\n"
        case _:
            doubled = "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}1]\n" for n in range(1, 12))
            return "a0: &a0 1\n" + doubled + text
    return "".join(lines)
