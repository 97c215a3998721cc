"""Documents and overrides that are given as Python values, not as text.

A mapping is written as YAML and read again, so that the rules of `fleetsim.schema.strict_yaml` hold
for it too. Its messages name keys, but no lines.
"""

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.schema import strict_yaml
from fleetsim.schema.overrides import Override
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import MAX_DEPTH, Document, KeyPath, shown, spelled

Overrides = str | Mapping[str, Any] | Iterable[str | Override]
"""`"server.cohort=20"`, as of `--set`, several such texts, or `{"server.cohort": 20}`; a value
replaces that of the scenario, mappings included."""


def document_of(data: Mapping[str, Any], source: str) -> Document:
    """Return a mapping as a document that messages call `source`.

    >>> document_of({"stop": {"rounds": np.int64(5)}, "at": (0, 1)}, "scenario").data
    {'stop': {'rounds': 5}, 'at': [0, 1]}
    """
    try:
        text = strict_yaml.dump(_plain(data, (), source))
    except ValueError as cause:
        raise ScenarioError(f"{source}: {cause}; correct it") from None
    return replace(strict_yaml.parse(text, source), has_lines=False)


def changes_of(
    overrides: Overrides,
    keywords: Mapping[str, Any],
    *,
    keys: Collection[str],
    call: Callable[..., object],
) -> list[str | Override]:
    """Return overrides, and those given as keywords (`server__cohort=20`), in order.

    `keys` are those with which a keyword may begin, besides the arguments of the function `call`.

    >>> changes_of({"seed": 2}, {"stop__rounds": 5}, keys=["stop"], call=changes_of)[1].key
    'stop.rounds'
    """
    for word in keywords:
        if word.partition("__")[0].partition(".")[0] not in keys:
            known = [*keys, *inspect.signature(call).parameters]
            name = f"{call.__name__}() got an unexpected keyword argument {word!r}"
            raise TypeError(f"{name}{did_you_mean(word, known)}")
    given: list[str | Override]
    if isinstance(overrides, Mapping):
        given = [_override(key, value, "override") for key, value in overrides.items()]
    else:
        given = [overrides] if isinstance(overrides, str) else list(overrides)
    for change in given:
        if not isinstance(change, str | Override):
            raise ScenarioError(f"override {quoted(change)}: write 'KEY.PATH=VALUE'")
    by_word = [_override(word, value, "keyword") for word, value in keywords.items()]
    return [*given, *by_word]


def _override(key: Any, value: Any, noun: str) -> Override:
    if not isinstance(key, str):
        raise ScenarioError(f"{noun} {quoted(key)}: a key path must be text")
    plain = _plain(value, (), f"{noun} {key}")
    path = key.replace("__", ".") if noun == "keyword" else key
    return Override(path, plain, f"{noun} {key}={shown(plain)}")


def _plain(value: Any, path: KeyPath, source: str) -> Any:
    """Return a value as mappings with text as keys, lists, text, numbers, booleans and None."""
    if len(path) > MAX_DEPTH:
        raise ScenarioError(f"{source}: nested deeper than {MAX_DEPTH} levels; make it flatter")
    match value:
        case Mapping():
            return {key: _plain(item, (*path, str(key)), source) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, (*path, index), source) for index, item in enumerate(value)]
        case np.ndarray() | np.generic():
            return _plain(value.tolist(), path, source)
        case os.PathLike():
            return os.fspath(value)
        case None | bool() | int() | float() | str():
            return value
    place = f"{source}: {spelled(path)}" if path else source
    raise ScenarioError(
        f"{place} = {quoted(value)}: {type(value).__name__} is no value of a file; give text, a"
        " number, a list or a mapping"
    )
