"""Overrides of a document by `--set`, `--unset` or another file, without editing it.

* `server.selector.kind=oort`, `stop.rounds=5`: the value is one YAML scalar, list or mapping by
  the rules of `fleetsim.schema.strict_yaml`. It replaces the file's value, mappings included.
* `fleet.devices."t2.small"=0.5`: a key with a dot is in quotes; `["t2.small"]` is the same.
* `sites[0].kind=wifi` or `sites.0.kind=wifi`: items of a list count from 0 and must exist.
* Parents that are missing or null are created.
* Another `kind` than the file's drops the file's other keys beside it, which belong to the old
  kind. Later overrides add the keys of the new one.
* `removals`: a key of the file is taken out, so that its default holds.
"""

import copy
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetsim.errors import ScenarioError
from fleetsim.quoting import cut, listed, quoted
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import MAX_DEPTH, Document, KeyPath, parse_value, shown, spelled

_STEP = re.compile(
    r"""(?:^|(?<=.)\.)(?P<bare>[^\s.="'\[\]]+)|(?:^|(?<=.)\.)"(?P<quoted>[^"]+)\"|"""
    r"""\["(?P<bracketed>[^"]+)"\]|\[(?P<index>[0-9]{1,9})\]"""
)
_REMOVED: Final = object()
"""Value of an override that removes its key."""


@dataclass(frozen=True, slots=True)
class Override:
    """New value of one key."""

    key: str
    """Key path, such as `server.selector.kind`."""
    value: Any
    name: str
    """Origin of the override in messages, such as `--set server.cohort=20` or `study.yaml:7`."""


def apply(document: Document, changes: Iterable[str | Override]) -> Document:
    """Return a copy of a document with overrides applied, `KEY.PATH=VALUE` each if they are text.

    >>> document = Document({"server": {"cohort": 10}}, "quickstart.yaml")
    >>> apply(document, ["server.cohort=20", "stop.rounds=5"]).data
    {'server': {'cohort': 20}, 'stop': {'rounds': 5}}
    """
    target = _Target(document)
    faults: list[str] = []
    for change in changes:
        try:
            target.put(change if isinstance(change, Override) else _parsed(change))
        except ScenarioError as error:
            faults.extend(error.faults)
    if faults:
        raise ScenarioError(*listed(faults))
    return replace(document, data=target.data, places=target.places)


def removals(keys: Iterable[str]) -> list[Override]:
    """Return overrides that remove keys which the document gives, as `--unset KEY` does.

    >>> document = Document({"server": {"cohort": 10, "deadline_s": 5}}, "quickstart.yaml")
    >>> apply(document, removals(["server.deadline_s"])).data
    {'server': {'cohort': 10}}
    """
    return [Override(key, _REMOVED, f"--unset {cut(key)}") for key in keys]


def content_hash(data: Any) -> str:
    """Return the SHA-256 (hex) of plain data, whatever the order of keys; 1 and 1.0 are equal.

    >>> content_hash({"a": 1, "b": [2.5]}) == content_hash({"b": [2.5], "a": 1.0})
    True
    """
    text = json.dumps(_canonical(data), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def scenario_hash(data: Mapping[str, Any]) -> str:
    """Return the hash of all keys of a scenario that can change the result, not `checkpoint`."""
    return content_hash({key: data[key] for key in data if key != "checkpoint"})


def _canonical(data: Any) -> Any:
    match data:
        case dict():
            return {key: _canonical(value) for key, value in data.items()}
        case list() | tuple():
            return [_canonical(value) for value in data]
        case float() if data.is_integer():
            return int(data)
        case _:
            return data


class _Target:
    def __init__(self, document: Document) -> None:
        self.source = document.source
        self.data = copy.deepcopy(document.data)
        self.places = dict(document.places)

    def put(self, change: Override) -> None:
        name, steps = change.name, _steps(change.key, change.name)
        if change.value is _REMOVED:
            self.remove(steps, name)
            return
        value = copy.deepcopy(change.value)
        here: Any = self.data
        path: KeyPath = ()
        for step in steps[:-1]:
            key = self.key(here, path, step, steps, name)
            if isinstance(here, dict) and here.get(key) is None:
                here[key] = {}
                self.places[(*path, key)] = name
            here, path = here[key], (*path, key)
        key = self.key(here, path, steps[-1], steps, name)
        if key == "kind" and here.get("kind", value) != value:
            self.drop_siblings(here, path, name)
        here[key] = value
        self.forget((*path, key))
        self.places[(*path, key)] = name

    def remove(self, steps: list[str | int], name: str) -> None:
        here: Any = self.data
        owner: Any = here
        path: KeyPath = ()
        for step in steps:
            key = self.key(here, path, step, steps, name) if here else step
            if isinstance(here, dict | None) and key not in (here or ()):
                near = did_you_mean(str(key), map(str, here or ()))
                hint = near or ", so its default holds already; leave --unset out"
                raise ScenarioError(f"{name}: is no key of {self.source}{hint}")
            owner, here, path = here, here[key], (*path, key)
        if isinstance(owner, list):
            raise ScenarioError(f"{name}: is an item of a list; set the whole list instead")
        del owner[path[-1]]
        self.forget(path)

    def key(
        self, here: Any, path: KeyPath, step: str | int, steps: list[str | int], name: str
    ) -> str | int:
        """Return the meaning of a step: the key of a mapping or the index of a list."""
        if isinstance(here, list):
            index = int(step) if isinstance(step, str) and step.isdecimal() else step
            if isinstance(index, int) and index < len(here):
                return index
            raise ScenarioError(
                f"{name}: {spelled(path)} is a list of {len(here)}; "
                "take one of its items by index, from 0, or set the whole list"
            )
        if not isinstance(here, dict):
            raise ScenarioError(
                f"{name}: {spelled(path)} is {shown(here)}, which has no keys; "
                f"set it whole: {spelled(path)}={{{cut(str(step))}: ...}}"
            )
        if isinstance(step, int):
            whole = spelled(path) or "the scenario"
            raise ScenarioError(f"{name}: {whole} is a mapping; name one of its keys")
        rest = ".".join(map(str, steps[len(path) :]))
        if step not in here and rest != step and rest in here:
            instead = f'{spelled(path)}."{rest}"'.removeprefix(".")
            raise ScenarioError(f"{name}: a key with a dot needs quotes; write {instead}")
        return step

    def drop_siblings(self, here: dict[str, Any], path: KeyPath, name: str) -> None:
        at_hand = Document(self.data, "", places=self.places)
        for sibling in [key for key in here if key != "kind" and at_hand.line((*path, key))]:
            below = (*path, sibling)
            for place, words in self.places.items():
                if isinstance(words, str) and place[: len(below)] == below:
                    raise ScenarioError(f"{name}: drops {words} as well; put it before that one")
            del here[sibling]
            self.forget(below)
        self.places[path] = name

    def forget(self, path: KeyPath) -> None:
        for place in [place for place in self.places if place[: len(path)] == path]:
            del self.places[place]


def _parsed(change: str) -> Override:
    if not change.isprintable():
        raise ScenarioError(
            f"--set {quoted(change)}: holds a character that is not text; remove it"
        )
    name = f"--set {cut(change)}"
    position = 0
    while match := _STEP.match(change, position):
        position = match.end()
    if not position or not change.startswith("=", position):
        raise ScenarioError(f"{name}: write KEY.PATH=VALUE, such as server.cohort=20")
    key = change[:position]
    _steps(key, name)
    return Override(key, parse_value(change[position + 1 :], name), name)


def _steps(key: str, name: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 0
    while match := _STEP.match(key, position):
        text = match["bare"] or match["quoted"] or match["bracketed"]
        steps.append(text or int(match["index"]))
        position = match.end()
    if not steps or position != len(key):
        raise ScenarioError(
            f"{name}: {quoted(key)} is no key path; write KEY.PATH, such as server.cohort"
        )
    if len(steps) > MAX_DEPTH:
        raise ScenarioError(f"{name}: deeper than {MAX_DEPTH} levels")
    return steps
