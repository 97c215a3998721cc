"""What is wrong with a file, one line per fault: where, which key, and what is allowed instead.

`check` validates a document against a settings class. pydantic finds the faults, this module says
them: `oort.yaml:12: server.cohort = 0: must be a whole number >= 1`. Validation is strict: text is
never a number, `true` is never 1, 5.0 is not a whole number (but 5 is a good float).
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from fleetsim.errors import ScenarioError
from fleetsim.fault_spot import Spot, keys_of, locate
from fleetsim.strict_yaml import Document, InputError, KeyPath, shown, spelled

M = TypeVar("M", bound=BaseModel)

_UNITS = frozenset(
    "s sec secs second seconds ms us ns min minute minutes h hour hours d day days "
    "j joule joules kj mj wh kwh mwh ah mah w watt watts mw kw v hz khz mhz ghz "
    "bit bits kbit mbit gbit byte bytes kb mb gb kib mib gib bps kbps mbps gbps flop flops gflop "
    "gflops db dbm dbi m km meter meters c fraction ratio percent pct per".split()
)
_NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_TYPE_NOUNS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list [a, b]",
    "tuple_type": "a list [a, b]",
    "set_type": "a list [a, b]",
    "frozen_set_type": "a list [a, b]",
}
_NUMBER = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_RANGE_SIGNS = {
    "greater_than": ("gt", ">"),
    "greater_than_equal": ("ge", ">="),
    "less_than": ("lt", "<"),
    "less_than_equal": ("le", "<="),
}


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate spelt most like `word`, None if none is close.

    >>> nearest("power_of_choise", ["random", "oort", "power-of-choice"])
    'power-of-choice'
    >>> nearest("fedavg", ["oort"]) is None
    True
    """
    by_folded = {_folded(candidate): candidate for candidate in sorted(candidates, reverse=True)}
    close = difflib.get_close_matches(_folded(word), sorted(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'x'?` or nothing, to end a message with."""
    close = nearest(word, candidates)
    return f"; did you mean {close!r}?" if close is not None else ""


def _folded(word: str) -> str:
    return word.lower().replace("_", "-")


def line(document: Document, key_path: KeyPath, says: str) -> str:
    """One finished line: place, key path, value (unless it is a mapping or absent), and `says`."""
    value: Any = document.data
    for key in key_path:
        if not _has(value, key):
            return f"{document.where(key_path)}: {spelled(key_path)}: {says}"
        value = value[key]
    about = f": {spelled(key_path)}" if key_path else ""
    if not isinstance(value, dict):
        about += f" = {shown(value)}"
    return f"{document.where(key_path)}{about}: {says}"


def _has(value: Any, key: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, dict) and key in value


def at(key_path: KeyPath, says: str) -> PydanticCustomError:
    """A fault for a validator to raise about a key further down than where the validator stands.

    `raise faults.at(("server", "cohort"), "more than fleet.size = 10")` in a validator of the
    whole scenario points at the line of `server.cohort`; a ValueError would point at the top.
    """
    return PydanticCustomError("at", "{says}", {"says": says, "key_path": key_path})


def check(model: type[M], document: Document, error: InputError = ScenarioError) -> M:
    """Validate a document.

    Args:
        model: the settings class of the whole document.
        document: what was read.
        error: what to raise.

    Raises:
        error: one line per fault, in the order of the file.
    """
    try:
        # As JSON, because pydantic's strict mode takes lists for tuples and text for enums there.
        return model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as cause:
        found = cause.errors(include_url=False)
    lines = _lines(model, document, found)
    raise error(*lines) if error is ScenarioError else error("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _Fault:
    """What one pydantic error says of one key."""

    key_path: KeyPath
    says: str
    hint: str = ""
    """How the message ends: the nearest spelling, the way out."""
    is_missing: bool = False
    is_unlike: bool = False
    """True if one alternative of a union says that the value is of another type."""
    meant: str | None = None
    """The key that an unknown key was taken for."""


def _lines(model: type[BaseModel], document: Document, found: list[ErrorDetails]) -> list[str]:
    """The finished lines, one per key path, in the order of the file, then of the overrides."""
    faults = [_fault(details, locate(model, details["loc"]), document) for details in found]
    meant = {(*fault.key_path[:-1], fault.meant) for fault in faults if fault.meant is not None}
    deep = {fault.key_path[:length] for fault in faults for length in range(len(fault.key_path))}
    by_key: dict[KeyPath, list[_Fault]] = {}
    for fault in faults:
        is_said_better = (fault.is_missing and fault.key_path in meant) or (
            fault.is_unlike and fault.key_path in deep
        )
        if not is_said_better:
            by_key.setdefault(fault.key_path, []).append(fault)
    lines = {
        key_path: line(document, key_path, _joined(faults)) for key_path, faults in by_key.items()
    }
    return [
        lines[key_path]
        for key_path in sorted(lines, key=lambda path: document.line(path) or sys.maxsize)
    ]


def _joined(faults: list[_Fault]) -> str:
    """What all alternatives of a union say about one key."""
    first, *others = dict.fromkeys(fault.says for fault in faults)
    hint = next((fault.hint for fault in faults if fault.hint), "")
    return " or ".join([first, *(says.removeprefix("must be ") for says in others)]) + hint


def _fault(details: ErrorDetails, spot: Spot, document: Document) -> _Fault:
    """Say one pydantic error in our words."""
    key_path, kind, context = spot.key_path, details["type"], details.get("ctx", {})
    value = details["input"]
    if spot.is_key:
        says = f"as a key {_pydantic_says(details)}"
        return _Fault(key_path, says, _choice_hint(value, context))
    match kind:
        case "extra_forbidden":
            return _unknown(spot)
        case "missing":
            return _missing(spot)
        case "union_tag_not_found" | "union_tag_invalid":
            return _tag(spot, value)
        case "dict_type" | "model_type" | "model_attributes_type":
            return _Fault(key_path, *_mapping(spot, value), is_unlike=spot.is_branch)
        case "literal_error" | "enum":
            says = f"must be {context['expected']}"
            return _Fault(key_path, says, _choice_hint(value, context))
        case "value_error" | "assertion_error":
            return _Fault(key_path, " ".join(str(context["error"]).split()))
        case "at":
            return _Fault((*key_path, *context["key_path"]), " ".join(context["says"].split()))
        case _ if kind in _RANGE_SIGNS:
            name, sign = _RANGE_SIGNS[kind]
            limits = spot.expected.limits() or f"{sign} {context[name]}"
            return _Fault(key_path, f"must be {_noun(spot, value)} {limits}")
        case _ if kind in _TYPE_NOUNS:
            says = f"must be {_TYPE_NOUNS[kind]} {spot.expected.limits()}".rstrip()
            return _Fault(key_path, says, _type_hint(kind, value), is_unlike=spot.is_branch)
        case _:
            return _Fault(key_path, _pydantic_says(details))


def _noun(spot: Spot, value: Any) -> str:
    expected = spot.expected.types[0] if spot.expected.types else type(value)
    return _NOUNS.get(expected, "a number")


def _pydantic_says(details: ErrorDetails) -> str:
    """pydantic's message in the form of ours; it always begins with what is wrong."""
    text = re.sub(
        r"^(?:Input|Value|String|List|Tuple|Dictionary|Set) should ", "must ", details["msg"]
    )
    return text[:1].lower() + text[1:]


def _type_hint(kind: str, value: Any) -> str:
    if kind.startswith("int") and isinstance(value, float) and value.is_integer():
        return f"; write {int(value)}"
    if isinstance(value, str) and kind in ("int_type", "float_type") and _NUMBER.fullmatch(value):
        return "; drop the quotes"
    if isinstance(value, bool | int | float) and kind == "string_type":
        return f"; write '{shown(value)}' in quotes"
    return ""


def _choice_hint(value: Any, context: dict[str, Any]) -> str:
    choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    return did_you_mean(str(value), choices) if isinstance(value, str) else ""


def _missing(spot: Spot) -> _Fault:
    says = "missing"
    if spot.owner is not None:
        field = next(
            field
            for name, field in spot.owner.model_fields.items()
            if spot.key_path[-1] in (name, field.alias)
        )
        if field.description:
            says += f"; it says: {field.description.split('. ')[0].rstrip('.')}"
    return _Fault(spot.key_path, says, is_missing=True)


def _tag(spot: Spot, value: Any) -> _Fault:
    """The key that chooses between settings classes is missing or chooses none."""
    name = spot.expected.discriminator
    assert name is not None
    tags = sorted(spot.expected.tags())
    key_path = (*spot.key_path, name)
    allowed = ", ".join(map(repr, tags))
    if name not in value:
        return _Fault(key_path, f"missing; must be one of {allowed}")
    return _Fault(key_path, f"must be one of {allowed}", did_you_mean(str(value[name]), tags))


def _mapping(spot: Spot, value: Any) -> tuple[str, str]:
    """What is allowed and the way out, where something else stands instead of a mapping."""
    name, tags = spot.expected.discriminator, sorted(spot.expected.tags())
    if name is None:
        return "must be a mapping {key: value}", ""
    chosen = nearest(value, tags) if isinstance(value, str) else None
    hint = f"; write {{{name}: {chosen}}}" if chosen else ""
    return f"must be a mapping whose {name} is one of {', '.join(map(repr, tags))}", hint


def _unknown(spot: Spot) -> _Fault:
    """A key that its settings class does not take: a slip of the pen, of the unit, of the kind."""
    assert spot.owner is not None
    key, allowed = str(spot.key_path[-1]), keys_of(spot.owner)
    others = [
        tag
        for tag, model in (spot.rivals or {}).items()
        if model is not spot.owner and key in keys_of(model)
    ]
    if others:
        return _Fault(
            spot.key_path, f"unknown key here; it belongs to {' and '.join(map(repr, others))}"
        )
    if same := [name for name in allowed if _stem(name) == _stem(key)]:
        meant = nearest(key, same) or same[0]
        says = "unknown key, for keys carry their unit"
        return _Fault(spot.key_path, says, f"; did you mean {meant!r}?", meant=meant)
    if (close := nearest(key, allowed)) is not None:
        return _Fault(spot.key_path, "unknown key", f"; did you mean {close!r}?", meant=close)
    listed = ", ".join(allowed) or "no key at all"
    return _Fault(spot.key_path, f"unknown key; allowed: {listed}")


def _stem(key: str) -> tuple[str, ...]:
    """The words of a key without the unit at its end."""
    words = key.lower().split("_")
    while len(words) > 1 and words[-1] in _UNITS:
        words.pop()
    return tuple(words)
