"""Outline of a scenario: task, fleet, network, server and end, one line each.

It is made of the resolved scenario as plain data, so that the pages of runs of older versions have
it too. Keys that are null, false, 0 or `none` are left out of a line.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from fleetsim.fleet.devices.assignment import device_counts
from fleetsim.scenario.settings import Scenario
from fleetsim.schema.strict_yaml import shown
from fleetsim.units import S_PER_DAY

_MOST_DEVICES = 12
_HASH_LENGTH = 8
_SPREAD = "unit_spread_sigma heterogeneity uncertainty crash_per_hour"
_CHANNEL = "kind trace unmetered_radio metered_radio bandwidth_hz fading shadowing_sd_db rate"
_USAGE = "trace synthetic starts_at_s pair"
_ROUNDS = "cohort over_commit minimum_reports concurrency buffer_size window_s"
_UPDATES = "compression max_update_norm privacy secure_aggregation"


def outline(scenario: Scenario) -> dict[str, str]:
    """Return the lines by label, and one of the run's seed and folder."""
    parts = setup_of(scenario.data()) | {
        "run": f"seed {scenario.seed}, folder runs/{scenario.name}-"
        f"{scenario.content_hash[:_HASH_LENGTH]} unless --out is given"
    }
    return {label: part for label, part in parts.items() if part}


def setup_of(data: Mapping[str, Any], *, num_parameters: int | None = None) -> dict[str, str]:
    """Return what a resolved scenario simulates by label; empty where it has no such part.

    The number of trained parameters is that of its network, where it is known.
    """
    task, fleet, server = data["task"], data["fleet"], data["server"]
    local, deadline_s = task.get("local", {}), server.get("deadline_s")
    others = {key: value for key, value in local.items() if key != "optimizer"}
    steps = others | ({"last_batch": None} if local.get("last_batch") == "keep" else {})
    lines = {
        "data": [task.get("dataset")],
        "partition": [task.get("partition")],
        "model": [task.get("model")],
        "parameters": [f"{num_parameters:,} trained" if num_parameters else ""],
        "training": [local.get("optimizer"), steps],
        "clients": [_clients(fleet), _some(fleet, _SPREAD)],
        "network": [_some(fleet.get("channel"), _CHANNEL), _some(fleet, "network")],
        "people": [_form(_some(fleet.get("usage"), _USAGE)) or "none"],
        "server": [server.get("mode", "synchronous"), _some(server, _ROUNDS)],
        "deadline": ["none" if deadline_s is None else f"{deadline_s:g} s"],
        "selector": [server.get("selector")],
        "aggregator": [server.get("aggregator"), _some(server, _UPDATES)],
        "evaluation": [data.get("evaluate")],
        "stop": [" or ".join(_stops(data["stop"]))],
    }
    return {label: ", ".join(filter(None, map(_form, parts))) for label, parts in lines.items()}


def _form(data: Mapping[str, Any] | str | None) -> str:
    """Return a mapping as text: its kind, then its keys that are on; text stays.

    >>> _form({"kind": "sgd", "learning_rate": 0.05, "momentum": 0.0, "decay": {"kind": "none"}})
    'sgd, learning_rate 0.05'
    """
    if isinstance(data, str):
        return data
    on = {key: value for key, value in (data or {}).items() if not _is_off(value)}
    kind = [str(on.pop("kind"))] if "kind" in on else []
    return ", ".join([*kind, *(f"{key} {_value(value)}" for key, value in on.items())])


def _is_off(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get("kind") in ("none", "of-model") or all(map(_is_off, value.values()))
    return not value


def _value(value: Any) -> str:
    match value:
        case str():
            return value
        case float():
            return f"{value:.10g}"
        case dict():
            return f"({_form(value)})"
        case _:
            return shown(value)


def _some(data: Mapping[str, Any] | None, keys: str) -> dict[str, Any]:
    return {key: data[key] for key in keys.split() if key in data} if data else {}


def _clients(fleet: Mapping[str, Any]) -> str:
    shares = fleet["devices"]
    numbers = device_counts(shares, size=fleet["size"]).tolist()
    counts = sorted(zip(shares, numbers, strict=True), key=lambda pair: -pair[1])
    # Devices of the user's own are named by path.
    kinds = [f"{number:,} {PurePath(name).name.removesuffix('.yaml')}" for name, number in counts]
    if len(kinds) > _MOST_DEVICES:
        kinds[_MOST_DEVICES:] = [f"{len(kinds) - _MOST_DEVICES} more kinds"]
    return f"{fleet['size']:,} ({', '.join(kinds)})"


def _stops(stop: Mapping[str, Any]) -> Iterator[str]:
    limits = {"rounds": "{:,} rounds", "accuracy": "accuracy {:g}", "energy_j": "{:,g} J"}
    yield from (words.format(stop[key]) for key, words in limits.items() if stop.get(key))
    if time_s := stop.get("time_s"):
        shown = f"{time_s / S_PER_DAY:g} days" if time_s >= S_PER_DAY else f"{time_s:g} s"
        yield f"{shown} of virtual time"
