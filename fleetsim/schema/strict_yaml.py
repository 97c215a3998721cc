r"""A strict subset of YAML, read with the line of every value.

Only PyYAML's scanner and parser are used (`yaml.SafeLoader`'s events). Values are built here:

* `true` and `false` are booleans, `null`, `~` and nothing are null; yes, no, on and off are text;
* `10` is a whole number (64 bit); `0.5`, `1.`, `.5`, `1e6`, `1E-3`, `.inf` and `.nan` are floats;
* `010` is refused as ambiguous; the rest is text: dates, times of day, `0x1F`, `1_000`;
* keys are text and given once; anchors, aliases, merge keys, tags, second documents are refused;
* UTF-8, at most 1 MiB, 32 levels and 200,000 values, no control characters, not even as `"\x1b"`.
"""

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.host.paths import InputError
from fleetsim.quoting import MAX_VALUE, cut, quoted
from fleetsim.schema.yaml_text import (
    MAX_BYTE,
    MAX_DEPTH,
    MAX_VALUES,
    UNFIT,
    Scalar,
    dump,
    float_text,
    meaning,
)

__all__ = [
    "MAX_DEPTH",
    "Document",
    "InputError",
    "KeyPath",
    "dump",
    "parse",
    "parse_value",
    "read",
    "shown",
    "spelled",
]

KeyPath = tuple[str | int, ...]
"""Place of a value: keys of mappings and indices of lists, from the top."""

_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Document:
    """One mapping read from YAML, with the place that each value came from."""

    data: dict[str, Any]
    """Mappings, lists, text, numbers, booleans and null; keys are text."""
    source: str
    folder: Path | None = None
    """Folder of the file; None for other text."""
    places: Mapping[KeyPath, int | str] = field(default_factory=dict)
    """Place of each value: a line of `source` (from 1), or words such as `--set a.b=1`."""
    has_lines: bool = True
    """False: `source` is no text with lines, but data from Python."""

    def line(self, key_path: KeyPath) -> int:
        """Return the line of a key, or of its nearest parent; 0 if no line of the file set it."""
        place = self._place(key_path)
        return place if isinstance(place, int) else 0

    def where(self, key_path: KeyPath) -> str:
        """Return the place of a key or of its nearest parent: `a.yaml:12` or `--set a.b=0`."""
        place = self._place(key_path)
        if not isinstance(place, int):
            return place
        return f"{self.source}:{place}" if self.has_lines else self.source

    def _place(self, key_path: KeyPath) -> int | str:
        for length in range(len(key_path), -1, -1):
            if (place := self.places.get(key_path[:length])) is not None:
                return place
        return 1


def spelled(key_path: KeyPath) -> str:
    """Return a key path as text: dots between plain keys, brackets around the others.

    >>> spelled(("fleet", "devices", "t2.small", 0))
    'fleet.devices["t2.small"][0]'
    """
    text = ""
    for key in key_path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif len(key) <= MAX_VALUE and _BARE_KEY.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{json.dumps(cut(key), ensure_ascii=False)}]"
    return text


def shown(value: Any) -> str:
    """Return a value on one line, similar to YAML, cut to 80 characters.

    >>> shown({"kind": "oort", "probe": True, "limits": [1, None, 1e6]})
    "{kind: 'oort', probe: true, limits: [1, null, 1000000.0]}"
    """
    return cut(_flow(value))


def _flow(value: Any) -> str:
    # The beginning of a long value is enough.
    match value:
        case dict():
            first = itertools.islice(value.items(), MAX_VALUE)
            return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in first) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value[:MAX_VALUE])) + "]"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return float_text(value)
        case _:
            return quoted(value)


def read(path: Path, error: InputError = ScenarioError) -> Document:
    """Read a YAML file; messages name it as the user did."""
    with paths.opened(path, error, what="a YAML file") as file:
        content = file.read(MAX_BYTE + 1)
    if len(content) > MAX_BYTE:
        raise error(f"{path}: larger than 1 MiB; this cannot be a file of settings")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line, byte = content.count(b"\n", 0, cause.start) + 1, content[cause.start]
        raise error(f"{path}:{line}: byte 0x{byte:02x} is not UTF-8; save it as UTF-8") from None
    return parse(text, str(path), error, path.parent)


def parse(
    text: str, source: str, error: InputError = ScenarioError, folder: Path | None = None
) -> Document:
    """Read YAML from text, which messages call `source`; `folder` is that of its file, if any."""
    reader = _Reader(text, source, error)
    data = reader.run()
    if data is None:
        raise error(f"{source}:1: the file says nothing; write lines such as 'key: value'")
    if not isinstance(data, dict):
        place = f"{source}:{reader.places[()]}"
        raise error(f"{place}: {shown(data)} must be a mapping: lines such as 'key: value'")
    return Document(data, source, folder, reader.places)


def parse_value(text: str, source: str) -> Any:
    """Read one value: a scalar, `[a, b]` or `{key: value}`."""
    reader = _Reader(text, source, ScenarioError, is_one_value=True)
    value = reader.run()
    if not reader.places:
        raise ScenarioError(f"{source}: no value given; write null for none, '' for empty text")
    return value


class _Reader:
    def __init__(
        self, text: str, source: str, error: InputError, *, is_one_value: bool = False
    ) -> None:
        self.text = text
        self.source = source
        self.error = error
        self.is_one_value = is_one_value
        self.places: dict[KeyPath, int | str] = {}
        self.num_values = 0

    def run(self) -> Any:
        if len(self.text) > MAX_BYTE:
            raise self.fault(1, "longer than 1 MiB; this cannot be settings")
        if unfit := yaml.reader.Reader.NON_PRINTABLE.search(self.text):
            line = self.text.count("\n", 0, unfit.start()) + 1
            raise self.fault(line, f"character {unfit.group()!a} is not text; remove it")
        loader = yaml.SafeLoader(self.text)
        self.next: Callable[[], yaml.Event] = loader.get_event
        try:
            return self.stream()
        except yaml.MarkedYAMLError as cause:
            mark = cause.problem_mark or cause.context_mark
            problem = ", ".join(cut(part) for part in (cause.context, cause.problem) if part)
            hint = "indent with spaces, not tabs" if r"'\t'" in problem else "correct the line"
            raise self.fault(mark.line + 1 if mark else 1, f"not YAML: {problem}; {hint}") from None
        except (ValueError, OverflowError):
            # The scanner's own chr() and int(): "\UFFFFFFFF", or a version of 5000 digits.
            raise self.fault(
                loader.line + 1, "not YAML: number or escape out of range; correct the line"
            ) from None

    def fault(self, line: int, message: str) -> ScenarioError | DataError:
        return self.error(f"{self.source}{'' if self.is_one_value else f':{line}'}: {message}")

    def stream(self) -> Any:
        value = None
        while not isinstance(event := self.next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                if self.places:
                    raise self.fault(_line(event), "a second document begins; one is allowed")
                value = self.value(self.next(), ())
        return value

    def value(self, event: yaml.Event, path: KeyPath) -> Any:
        line = _line(event)
        self.num_values += 1
        if self.num_values > MAX_VALUES:
            raise self.fault(line, f"more than {MAX_VALUES} values; this cannot be settings")
        self.places.setdefault(path, line)
        if not isinstance(event, yaml.CollectionStartEvent):
            return self.scalar(event, line)
        self.refuse_indirection(event, line)
        if len(path) >= MAX_DEPTH:
            raise self.fault(line, f"nested deeper than {MAX_DEPTH} levels; make it flatter")
        if self.is_one_value and not event.flow_style:
            raise self.fault(line, "write a list as [a, b] and a mapping as {key: value}")
        return (self.sequence if isinstance(event, yaml.SequenceStartEvent) else self.mapping)(path)

    def sequence(self, path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            items.append(self.value(event, (*path, len(items))))
        return items

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            line = _line(event)
            key = self.key(event, line)
            here = (*path, key)
            if key in items:
                first = "" if self.is_one_value else f", first in line {self.places[here]}"
                raise self.fault(line, f"{spelled(here)}: given twice{first}; keep one")
            self.places[here] = line
            items[key] = self.value(self.next(), here)
        return items

    def key(self, event: yaml.Event, line: int) -> str:
        if isinstance(event, yaml.CollectionStartEvent):
            raise self.fault(line, "a key must be text, not a list or a mapping")
        if isinstance(event, yaml.ScalarEvent) and event.style is None and event.value == "<<":
            raise self.fault(line, "merge keys (<<) are not allowed; write the keys out")
        key = self.scalar(event, line)
        if not isinstance(key, str):
            raise self.fault(line, f"the key {shown(key)} must be text; put it in quotes")
        return key

    def scalar(self, event: yaml.Event, line: int) -> Scalar:
        self.refuse_indirection(event, line)
        assert isinstance(event, yaml.ScalarEvent)
        if unfit := UNFIT.search(event.value):
            raise self.fault(line, f"text may not hold the character {unfit.group()!a}; remove it")
        try:
            return event.value if event.style is not None else meaning(event.value)
        except ValueError as cause:
            raise self.fault(line, str(cause)) from None

    def refuse_indirection(self, event: yaml.Event, line: int) -> None:
        assert isinstance(event, yaml.NodeEvent)
        if event.anchor is not None:
            raise self.fault(line, "anchors (&) and aliases (*) are not allowed; write it out")
        if (tag := getattr(event, "tag", None)) is not None:
            raise self.fault(line, f"tags such as {cut(tag)} are not allowed; write a plain value")


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return event.start_mark.line + 1
