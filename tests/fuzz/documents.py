"""Damaged YAML documents: keys exchanged, removed, misspelt, and values at and beyond their bounds.

New values come from the JSON Schema of scenarios, so that they are often valid but
unusual, and from a list of values on which programs often fail.
"""

import copy
from typing import Any, Final

import yaml
from hypothesis import strategies as st

Key = str | int

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


def paths_of(document: Any, at: tuple[Key, ...] = ()) -> list[tuple[Key, ...]]:
    """Return all key paths of a document, in its order."""
    if isinstance(document, dict):
        items: list[tuple[Any, Any]] = list(document.items())
    elif isinstance(document, list):
        items = list(enumerate(document))
    else:
        return []
    found = []
    for key, value in items:
        found += [(*at, key), *paths_of(value, (*at, key))]
    return found


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
        case "array":
            return _list(draw, schema, defs, depth)
        case "number" | "integer" as kind:
            return _number(draw, schema, is_whole=kind == "integer")
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


def _list(draw: st.DrawFn, schema: Any, defs: dict[str, Any], depth: int) -> Any:
    if "prefixItems" in schema:
        return [draw(of_schema(part, defs, depth + 1)) for part in schema["prefixItems"]]
    fewest = schema.get("minItems", 0)
    length = draw(st.integers(fewest, max(fewest, min(schema.get("maxItems", 3), 3))))
    return [draw(of_schema(schema.get("items", {}), defs, depth + 1)) for _ in range(length)]


def _number(draw: st.DrawFn, schema: Any, *, is_whole: bool) -> Any:
    bounds = [
        schema[name]
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        if name in schema
    ]
    usual = [0, 1, 2, 7, 100] if is_whole else [0.0, 0.1, 0.5, 1.0, 3.3, 60.0, 1e4]
    steps = [-1, 0, 1] if is_whole else [-1e-9, 0.0, 1e-9]
    near = [bound + step for bound in bounds for step in steps]
    return draw(st.sampled_from(usual + near))


@st.composite
def damaged(draw, documents, schema=None) -> dict[str, Any]:
    """Draw one of these documents with one to four changes."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(1, 4))):
        paths = paths_of(document)
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        owner: Any = document
        for key in path[:-1]:
            owner = owner[key]
        match draw(st.sampled_from(["junk", "schema", "schema", "remove", "rename", "graft"])):
            case "junk":
                owner[path[-1]] = copy.deepcopy(draw(st.sampled_from(JUNK)))
            case "schema" if schema is not None:
                part = _part(schema, document, path)
                if part is not None:
                    owner[path[-1]] = draw(of_schema(part, schema.get("$defs", {})))
            case "remove":
                del owner[path[-1]]
            case "rename" if isinstance(owner, dict):
                other = draw(st.sampled_from([f"{path[-1]}s", str(path[-1])[:-1] or "x", "kind"]))
                owner[other] = owner.pop(path[-1])
            case _:
                other_document = draw(st.sampled_from(documents))
                source = draw(st.sampled_from(paths_of(other_document)))
                value = other_document
                for key in source:
                    value = value[key]
                owner[path[-1]] = copy.deepcopy(value)
    return document


def _part(schema: dict[str, Any], document: Any, path: tuple[Key, ...]) -> Any:
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
def texts(draw: st.DrawFn, document: Any) -> str:
    """Draw a document as YAML text, one in five with damaged text."""
    text = yaml.safe_dump(
        document, allow_unicode=draw(st.booleans()), sort_keys=False, default_flow_style=None
    )
    if draw(st.integers(0, 4)):
        return text
    lines = text.splitlines(keepends=True)
    at = draw(st.integers(0, max(len(lines) - 1, 0)))
    match draw(st.sampled_from(["block", "double", "swap", "indent", "deep", "aliases"])):
        case "block":
            place = draw(st.integers(0, len(text)))
            return text[:place] + draw(st.sampled_from(_BLOCKS)) + text[place:]
        case "double":
            return "".join([*lines[: at + 1], *lines[at:]])
        case "swap":
            other = draw(st.integers(0, max(len(lines) - 1, 0)))
            lines[at], lines[other] = lines[other], lines[at]
        case "indent":
            lines[at] = draw(st.sampled_from([" ", "  ", "\t"])) + lines[at]
        case "deep":
            lines[at] = "x: " + "[" * draw(st.sampled_from([50, 2000])) + "\n"
        case _:
            doubled = "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}1]\n" for n in range(1, 12))
            return "a0: &a0 1\n" + doubled + text
    return "".join(lines)
