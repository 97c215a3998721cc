"""Messages about faults in a file, one line each: place, key, and what is allowed.

pydantic finds the faults, this module words them. Validation is strict: text is never a number,
`true` is never 1, 5.0 is not a whole number (but 5 is a valid float).
"""

import json
import re
import sys
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from fleetsim.errors import ScenarioError
from fleetsim.quoting import counted, listed, quoted
from fleetsim.schema.explained_keys import ExplainedKey, explained_keys, namesake
from fleetsim.schema.fault_location import KeyPlace, Locator, keys_of
from fleetsim.schema.field_docstrings import description
from fleetsim.schema.spelling import did_you_mean, nearest
from fleetsim.schema.strict_yaml import Document, InputError, KeyPath, shown, spelled

M = TypeVar("M", bound=BaseModel)

Fault = tuple[KeyPath, str]

_UNIT = re.compile(
    "(?:_(?:s|secs?|seconds?|ms|us|ns|min|minutes?|h|hours?|d|days?|j|joules?|kj|mj|k?wh|mwh|m?ah|"
    "w|watts?|[km]w|v|volts?|[kmg]?hz|[kmg]?bits?|[kmg]?bytes?|[kmg]i?b|[kmg]?bps|g?flops?|"
    "db|dbm|dbi|k?m|meters?|c|fraction|ratio|percent|pct|per))+$"
)
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_MAX_EXAMINED = 200
"""Faults that are examined in detail, which bounds the cost."""
_TYPE_NOUNS = {
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("string_type", "string_unicode"), "text"),
    "none_required": "null",
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "a list [a, b]"),
}
_RANGE_SIGNS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "<="),
}


def line(document: Document, key_path: KeyPath, message: str) -> str:
    """Return one finished line: place, key path, value (unless a mapping or absent), `message`."""
    value: Any = document.data
    for key in key_path:
        if not _has(value, key):
            return f"{document.where(key_path)}: {spelled(key_path)}: {message}"
        value = value[key]
    about = f": {spelled(key_path)}" if key_path else ""
    if not isinstance(value, dict):
        about += f" = {shown(value)}"
    return f"{document.where(key_path)}{about}: {message}"


def _has(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, dict) and key in value


def at(key_path: KeyPath, message: str) -> PydanticCustomError:
    """Return a fault for a validator to raise about a key below its own.

    `raise faults.at(("server", "cohort"), "more than fleet.size = 10")` in a validator of the
    whole scenario points at the line of `server.cohort`; a ValueError would point at the top.
    """
    return PydanticCustomError("at", "{message}", {"message": message, "key_path": key_path})


def check(
    model: type[M], document: Document, error: InputError = ScenarioError, *, hint: str = ""
) -> M:
    """Return a document as an object of its settings class, or raise one line per fault.

    Each line ends with the hint, if there is one.
    """
    try:
        # As JSON, because pydantic's strict mode takes lists for tuples and text for enums there.
        return model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as cause:
        errors = cause.errors(include_url=False)
    end = f"; {hint}" if hint else ""
    raise error(*(f"{line}{end}" for line in _lines(model, document, errors)))


@dataclass(frozen=True, slots=True)
class _Fault:
    key_path: KeyPath
    message: str
    hint: str = ""
    is_missing: bool = False
    yields_to_deeper: bool = False
    """True if a fault further down is the true one: of a union, another alternative says that the
    value is not of its kind; of a list, only the items without fault were counted."""
    meant: str | None = None
    """Known key that an unknown key resembles."""
    block: tuple[str, str] = ("", "")
    """Of a key of another kind: the key that chooses the kind, and the mapping of the kind."""
    is_unknown: bool = False
    """True for an unknown key that resembles none beside it."""


def _lines(model: type[BaseModel], document: Document, errors: list[ErrorDetails]) -> list[str]:
    """Return the lines, one per key path, in the order of the file, then of the overrides."""
    locator = Locator(model)
    places = [locator.locate(details["loc"]) for details in errors]
    in_order = sorted(
        zip(errors, places, strict=True),
        key=lambda pair: document.line(pair[1].key_path) or sys.maxsize,
    )
    faults = [_fault(details, place) for details, place in in_order[:_MAX_EXAMINED]]
    has_unknown = any(fault.is_unknown for fault in faults)
    keys = explained_keys(model.model_json_schema()) if has_unknown else []
    faults = [_looked_up(fault, keys) if fault.is_unknown else fault for fault in faults]
    faults = [_of_other_kind(fault, document) if any(fault.block) else fault for fault in faults]
    examined = {place.key_path for _, place in in_order[:_MAX_EXAMINED]}
    others = {place.key_path for _, place in in_order[_MAX_EXAMINED:]} - examined
    meant = {(*fault.key_path[:-1], fault.meant) for fault in faults if fault.meant is not None}
    deep = {fault.key_path[:length] for fault in faults for length in range(len(fault.key_path))}
    by_key: dict[KeyPath, list[_Fault]] = {}
    for fault in faults:
        is_explained_better = (fault.is_missing and fault.key_path in meant) or (
            fault.yields_to_deeper and fault.key_path in deep
        )
        if not is_explained_better:
            by_key.setdefault(fault.key_path, []).append(fault)
    key_paths = sorted(by_key, key=lambda path: document.line(path) or sys.maxsize)
    lines = [line(document, key_path, _joined(by_key[key_path])) for key_path in key_paths]
    return listed(lines, num_unsaid=len(others))


def _joined(faults: list[_Fault]) -> str:
    first, *others = dict.fromkeys(fault.message for fault in faults)
    hint = next((fault.hint for fault in faults if fault.hint), "")
    return " or ".join([first, *(message.removeprefix("must be ") for message in others)]) + hint


def _fault(details: ErrorDetails, place: KeyPlace) -> _Fault:
    key_path, kind, value = place.key_path, details["type"], details["input"]
    context = details.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return _unknown(place)
        case "missing":
            return _missing(place)
        case "union_tag_not_found" | "union_tag_invalid" if name := place.discriminator:
            return _tag(place, name, value)
        case "dict_type" | "model_type" | "model_attributes_type":
            return _mapping(place, value)
        case "value_error" | "assertion_error":
            fault = _Fault(key_path, " ".join(str(context["error"]).split()))
        case "at":
            return _Fault((*key_path, *context["key_path"]), " ".join(context["message"].split()))
        case "literal_error" | "enum":
            choices = re.findall("'([^']*)'", context["expected"])
            hint = did_you_mean(value, choices) if isinstance(value, str) else ""
            message = f"must be {context['expected']}"
            fault = _Fault(key_path, message, hint, yields_to_deeper=place.is_branch)
        case _ if kind in _RANGE_SIGNS:
            bound, sign = _RANGE_SIGNS[kind]
            noun = "a whole number" if place.node.get("type") == "int" else "a number"
            limits = place.limits() or f"{sign} {str(context[bound]).removesuffix('.0')}"
            fault = _Fault(key_path, f"must be {noun} {limits}")
        case _ if kind in _TYPE_NOUNS:
            message = f"must be {_TYPE_NOUNS[kind]} {place.limits()}".rstrip()
            hint = _type_hint(kind, value)
            fault = _Fault(key_path, message, hint, yields_to_deeper=place.is_branch)
        case _:
            is_count = kind == "too_short"
            fault = _Fault(key_path, _limit(kind, context), yields_to_deeper=is_count)
    return replace(fault, message=f"the key {fault.message}") if place.is_key else fault


def _limit(kind: str, context: dict[str, Any]) -> str:
    noun = "character" if kind.startswith("string") else "item"
    has = f", not {context['actual_length']}" if kind in ("too_short", "too_long") else ""
    match kind.removeprefix("string_"):
        case "too_short":
            return f"must have at least {counted(context['min_length'], noun)}{has}"
        case "too_long":
            return f"must have at most {counted(context['max_length'], noun)}{has}"
        case "pattern_mismatch":
            return f"must match pattern '{context['pattern']}'"
        case "multiple_of":
            return f"must be a multiple of {context['multiple_of']}"
        case "json_invalid":
            return "must be text in Unicode, and nested less deeply"
        case _:
            return "is not allowed here"


def _type_hint(kind: str, value: Any) -> str:
    match value:
        case dict():
            return ", not a mapping"
        case float() if kind == "int_type" and value.is_integer():
            return f"; write {int(value)}"
        case str() if kind in ("int_type", "float_type") and _NUMBER.fullmatch(value):
            return "; drop the quotes"
        case bool() | int() | float() if kind == "string_type":
            return f"; write '{shown(value)}' in quotes"
        case _:
            return ""


def _missing(place: KeyPlace) -> _Fault:
    owner, key = place.owner, place.key_path[-1]
    about = None
    if owner:
        named = (name for name, one in owner.model_fields.items() if key in (name, one.alias))
        about = next((description(owner, name) for name in named), None)
    message = f"missing ({about.split('. ')[0].rstrip('.')})" if about else "missing"
    return _Fault(place.key_path, " ".join(message.split()), is_missing=True)


def _tag(place: KeyPlace, name: str, value: dict[str, Any]) -> _Fault:
    tags = sorted(place.tags)
    allowed = ", ".join(map(repr, tags))
    if name in value:
        hint = did_you_mean(str(value[name]), tags)
        return _Fault((*place.key_path, name), f"must be one of {allowed}", hint)
    close = nearest(name, value)
    hint = f"; did you misspell it as {quoted(close)}?" if close else ""
    return _Fault((*place.key_path, name), f"missing, must be one of {allowed}", hint)


def _mapping(place: KeyPlace, value: Any) -> _Fault:
    name, tags = place.discriminator, sorted(place.tags)
    message, hint = "must be a mapping {key: value}", ""
    if name is not None:
        message = f"must be a mapping whose {name} is one of {', '.join(map(repr, tags))}"
        chosen = nearest(value, tags) if isinstance(value, str) else None
        hint = f"; write {{{name}: {chosen}}}" if chosen else ""
    return _Fault(place.key_path, message, hint, yields_to_deeper=place.is_branch)


def _unknown(place: KeyPlace) -> _Fault:
    """Return the fault of an unknown key: a misspelling, a wrong unit, or a key of another kind."""
    key, allowed = str(place.key_path[-1]), keys_of(place.owner) if place.owner else []
    others = [repr(tag) for tag, model in place.alternatives.items() if key in keys_of(model)]
    if others:
        message = f"unknown key here; it is a key of {' and '.join(others)}"
        return _Fault(place.key_path, message, block=_block(place))
    stem = _UNIT.sub("", key.lower())
    same = [name for name in allowed if _UNIT.sub("", name) == stem]
    meant = nearest(key, same or allowed) or (same[0] if same else None)
    if meant is None:
        message = f"unknown key; allowed: {', '.join(allowed) or 'none'}"
        return _Fault(place.key_path, message, is_unknown=True)
    is_unit_slip = _UNIT.search(meant) is not None and _UNIT.sub("", meant) == stem
    hint = f"; {'keys carry their unit: ' if is_unit_slip else ''}did you mean {quoted(meant)}?"
    return _Fault(place.key_path, "unknown key", hint, meant=meant)


def _block(place: KeyPlace) -> tuple[str, str]:
    """Return the key that chose the kind of a mapping, and the mapping with what it requires."""
    fields = {} if place.owner is None else place.owner.model_fields
    choice = next((name for name in ("kind", "mode") if name in fields), "kind")
    tag = next((tag for tag, model in place.alternatives.items() if model is place.owner), "...")
    needs = [name for name, info in fields.items() if info.is_required() and name != choice]
    return choice, ", ".join([f"{choice}: {tag}", *(f"{name}: ..." for name in needs)])


def _of_other_kind(fault: _Fault, document: Document) -> _Fault:
    """Return the fault of a key of the file whose mapping was made another kind by an override."""
    (choice, block), above = fault.block, fault.key_path[:-1]
    if not document.line(fault.key_path) or document.line((*above, choice)):
        return fault
    name = spelled(above)
    hint = f"; remove it with --unset {spelled(fault.key_path)}, or give all of {name}"
    return replace(fault, hint=f"{hint}: --set '{name}={{{block}}}'")


def _looked_up(fault: _Fault, keys: list[ExplainedKey]) -> _Fault:
    """Return the fault of an unknown key with the place of the file where it is known, if any."""
    meant = namesake(keys, ".".join(map(str, fault.key_path)))
    if meant is None:
        return fault
    return replace(fault, message="unknown key here", hint=f"; did you mean {quoted(meant)}?")
