"""Differences between the scenarios of runs, labels of the runs, and comparison of their worlds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetsim.quoting import cut
from fleetsim.record.saved_run import Run
from fleetsim.scenario import WORLD
from fleetsim.schema.strict_yaml import KeyPath, shown, spelled
from fleetsim.user import KINDS

_IGNORED = ("name", "checkpoint")
_MAX_PARTS = 3
_MAX_WIDTH = 28
_HASH_LENGTH = 12
_MODE: KeyPath = ("server", "mode")
_SELECTOR: KeyPath = ("server", "selector", "kind")
ABSENT: Final = object()
"""Value of a key that a scenario does not have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key with other values in some runs than in others."""

    path: KeyPath
    values: tuple[Any, ...]
    """One per run; `ABSENT` where a scenario does not have the key."""
    forms: tuple[tuple[Any, ...], ...]
    """Kinds of the mappings around the key, one per run."""

    @property
    def is_of_world(self) -> bool:
        """True for a key of the world, which compared runs share."""
        return any(self.path[: len(part)] == part for part in WORLD)

    def tells(self, index: int) -> bool:
        """Return whether one run differs from another in which the mappings have its form."""
        own = self.values[index], self.forms[index]
        others = zip(self.values, self.forms, strict=True)
        return any(form == own[1] and value != own[0] for value, form in others)

    def shown(self, index: int) -> str:
        """Return the value of one run, on one short line."""
        value = self.values[index]
        if value is ABSENT:
            return "-"
        return cut(value if isinstance(value, str) else shown(value), _MAX_WIDTH)

    def __str__(self) -> str:
        values = dict.fromkeys(self.shown(index) for index in range(len(self.values)))
        return f"{spelled(self.path)} ({', '.join(values)})"


def differences(runs: Sequence[Run]) -> list[Difference]:
    """Return the differences of runs without `name` and `checkpoint`, with the trainer's name."""
    return between([_compared_data(run) for run in runs])


def between(scenarios: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return every key that differs in resolved scenarios, the selector's first.

    A key that only one form of a mapping has, such as `server.selector.alpha` beside another
    `kind`, counts if scenarios of that form differ in it.
    """
    every = _walk(scenarios, (), [()] * len(scenarios))
    counted = [each for each in every if any(map(each.tells, range(len(scenarios))))]
    return sorted(counted, key=lambda difference: difference.path[:2] != ("server", "selector"))


def labels(runs: Sequence[Run]) -> list[str]:
    """Return a label for each run: its differences, and its folder where these are not unique.

    Runs with different selectors are labelled by their kind, with different modes of the server by
    the mode, others by `key=value`.
    """
    every = differences(runs)
    result = [_label(every, index) or run.manifest.name for index, run in enumerate(runs)]
    for more in (lambda run: run.folder.name, lambda run: str(run.folder)):
        number = Counter(result)
        result = [
            label if number[label] == 1 else f"{label} ({more(run)})"
            for label, run in zip(result, runs, strict=True)
        ]
    return result


def world_differences(runs: Sequence[Run]) -> list[str]:
    """Return the differences between the worlds of runs, one per key; empty if they are equal.

    Worlds are equal if and only if their hashes in the manifests are, and those of the user's own
    data.
    """
    # Of older runs, and of other data sets than the user's own, there is no digest.
    data = {run.manifest.data_sha256 for run in runs} - {None}
    if len({run.manifest.world_hash for run in runs}) <= 1 and len(data) <= 1:
        return []
    result = [str(difference) for difference in differences(runs) if difference.is_of_world]
    if result:
        return result
    versions = dict.fromkeys(run.manifest.versions.get("fleetsim", "unknown") for run in runs)
    return [
        "the hashes of their worlds, though seed, task and fleet read the same (scenario.yaml was"
        f" edited, or other versions of fleetsim made them: {', '.join(versions)})"
    ]


def _compared_data(run: Run) -> dict[str, Any]:
    """Return what is compared of a run: its scenario, trainer, plug-ins' files, and own data."""
    data = {key: value for key, value in run.scenario.items() if key not in _IGNORED}
    data["trainer"] = run.manifest.trainer
    for plugin in run.manifest.plugins:
        kind = KINDS.get(plugin.kind)
        source = plugin.source_sha256 and plugin.source_sha256[:_HASH_LENGTH]
        identity = {"source_sha256": source, "version": plugin.version}
        known = {key: value for key, value in identity.items() if value is not None}
        if kind is not None and kind.key_path is not None:
            data = _with(data, kind.key_path, known)
    if run.manifest.data_sha256 is not None:
        content = {"data_sha256": run.manifest.data_sha256[:_HASH_LENGTH]}
        data = _with(data, ("task", "dataset"), content)
    return data


def _with(data: Any, path: KeyPath, more: dict[str, Any]) -> Any:
    """Return data with more keys in the mapping at a path, if one is there."""
    if not isinstance(data, dict):
        return data
    if not path:
        return {**data, **more}
    key, *below = path
    return {**data, str(key): _with(data.get(str(key)), tuple(below), more)}


def _walk(
    values: Sequence[Any], path: KeyPath, forms: Sequence[tuple[Any, ...]]
) -> Iterator[Difference]:
    """Yield leaves that differ, in the order of the first scenario that has them."""
    if all(isinstance(value, dict) for value in values if value is not ABSENT):
        mappings = [{} if value is ABSENT else value for value in values]
        inner = [(*form, each.get("kind")) for form, each in zip(forms, mappings, strict=True)]
        for key in dict.fromkeys(key for mapping in mappings for key in mapping):
            at_key = [mapping.get(key, ABSENT) for mapping in mappings]
            yield from _walk(at_key, (*path, key), forms if key == "kind" else inner)
    elif any(value != values[0] for value in values):
        yield Difference(path, tuple(values), tuple(forms))


def _label(every: Sequence[Difference], index: int) -> str:
    modes = next((each.values for each in every if each.path == _MODE), ())
    alike = [n for n, mode in enumerate(modes) if mode == modes[index]]
    parts = []
    for difference in every:
        values = difference.values
        if values[index] is ABSENT or not difference.tells(index):
            continue
        if difference.path in {_MODE, _SELECTOR}:
            parts.append(difference.shown(index))
        elif (
            not alike
            or difference.path[0] != "server"
            or any(values[n] != values[index] for n in alike)
        ):  # servers of different modes differ in most of their keys
            *_, parent, key = ("", *difference.path)
            parts.append(f"{parent if key == 'kind' else key}={difference.shown(index)}")
    if len(parts) > _MAX_PARTS:
        parts = [*parts[:_MAX_PARTS], f"+{len(parts) - _MAX_PARTS}"]
    return ", ".join(parts)
