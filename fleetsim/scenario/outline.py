"""Outline of a scenario: task, fleet, network, server and end, one line each.

It is made of the resolved scenario as plain data, so that the pages of runs of older versions have
it too. Keys that are null, false, 0 or `none` are left out of a line.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from fleetsim.fleet.devices.assignment import device_counts
from fleetsim.quoting import counted
from fleetsim.scenario.settings import Scenario
from fleetsim.schema.strict_yaml import shown
from fleetsim.units import S_PER_DAY

_MOST_DEVICES = 12
_HASH_LENGTH = 8
_OFF_KINDS = ("none", "of-model")
_LENGTH = ("optimizer", "batch_size", "epochs", "steps")
_SPREAD = ("unit_spread_sigma", "heterogeneity", "uncertainty", "crash_per_hour")
_CHANNEL = (
    *("kind", "trace", "unmetered_radio", "metered_radio", "bandwidth_hz", "fading"),
    *("shadowing_sd_db", "rate"),
)
_USAGE = ("trace", "synthetic", "starts_at_s", "pair")
_UPDATES = ("compression", "max_update_norm", "privacy", "secure_aggregation")


def outline(scenario: Scenario) -> list[str]:
    """Return the lines, each with its aligned label, and one of the run's seed and folder."""
    parts = setup_of(scenario.data()) | {
        "run": f"seed {scenario.seed}, folder runs/{scenario.name}-"
        f"{scenario.content_hash[:_HASH_LENGTH]} unless --out is given"
    }
    width = max(map(len, parts)) + 2
    return [f"{label:<{width}}{part}" for label, part in parts.items() if part]


def setup_of(data: Mapping[str, Any], *, num_parameters: int | None = None) -> dict[str, str]:
    """Return what a resolved scenario simulates by label; empty where it has no such part.

    The number of trained parameters is that of its network, where it is known.
    """
    task, fleet, server = data["task"], data["fleet"], data["server"]
    return {
        "data": _form(task.get("dataset")),
        "partition": _form(task.get("partition")),
        "model": _form(task.get("model")),
        "parameters": f"{num_parameters:,} trained" if num_parameters else "",
        "training": ", ".join(_training(task.get("local") or {})),
        "clients": ", ".join(_clients(fleet)),
        "network": _joined(
            _form(_some(fleet.get("channel"), _CHANNEL)), _form(_some(fleet, ("network",)))
        ),
        "people": _form(_some(fleet.get("usage"), _USAGE)) or "none",
        **_server(server),
        "selector": _form(server.get("selector")),
        "aggregator": _joined(_form(server.get("aggregator")), _form(_some(server, _UPDATES))),
        "evaluation": _form(data.get("evaluate")),
        "stop": " or ".join(_stops(data["stop"])),
    }


def _form(data: Mapping[str, Any] | None) -> str:
    """Return a mapping as text: its kind, then its keys that are on.

    >>> _form({"kind": "sgd", "learning_rate": 0.05, "momentum": 0.0, "decay": {"kind": "none"}})
    'sgd, learning_rate 0.05'
    """
    on = {key: value for key, value in (data or {}).items() if not _is_off(value)}
    kind = [str(on.pop("kind"))] if "kind" in on else []
    return ", ".join([*kind, *(f"{key} {_value(value)}" for key, value in on.items())])


def _is_off(value: Any) -> bool:
    if isinstance(value, Mapping):
        return value.get("kind") in _OFF_KINDS or all(map(_is_off, value.values()))
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


def _some(data: Mapping[str, Any] | None, keys: Iterable[str]) -> dict[str, Any]:
    return {key: data[key] for key in keys if key in data} if data else {}


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _training(local: Mapping[str, Any]) -> Iterator[str]:
    if "optimizer" in local:
        yield _form(local["optimizer"])
    if "batch_size" in local:
        yield f"batches of {local['batch_size']}"
    if local.get("epochs") is not None:
        yield counted(local["epochs"], "epoch")
    elif local.get("steps") is not None:
        yield f"{local['steps']} SGD steps"
    others = _form({key: value for key, value in local.items() if key not in _LENGTH})
    if others:
        yield others


def _clients(fleet: Mapping[str, Any]) -> Iterator[str]:
    shares = fleet["devices"]
    numbers = device_counts(shares, size=fleet["size"]).tolist()
    counts = sorted(zip(shares, numbers, strict=True), key=lambda pair: -pair[1])
    # Devices of the user's own are named by path.
    kinds = [
        f"{number:,} {PurePath(name).name.removesuffix('.yaml')}"
        for name, number in counts[:_MOST_DEVICES]
    ]
    if len(counts) > _MOST_DEVICES:
        kinds.append(f"{len(counts) - _MOST_DEVICES} more kinds")
    yield f"{fleet['size']:,} ({', '.join(kinds)})"
    spread = _form(_some(fleet, _SPREAD))
    if spread:
        yield spread


def _server(server: Mapping[str, Any]) -> dict[str, str]:
    """Return how rounds are closed, of whom, and after how long."""
    deadline_s = server.get("deadline_s")
    deadline = "none" if deadline_s is None else f"{deadline_s:g} s"
    if server.get("mode") == "buffered":
        size = server.get("buffer_size")
        closes = f"{server['window_s']:g} s" if size is None else f"{size} answers"
        clients = f"{server['concurrency']:,} clients at work"
        return {
            "server": f"buffered, a round every {closes}",
            "cohort": clients,
            "deadline": deadline,
        }
    over_commit = server.get("over_commit", 1.0)
    more = f", over-commitment {over_commit:g}" if over_commit > 1.0 else ""
    cohort = f"{server['cohort']:,}{more}"
    return {"server": "synchronous", "cohort": cohort, "deadline": deadline}


def _stops(stop: Mapping[str, Any]) -> Iterator[str]:
    if stop.get("rounds") is not None:
        yield f"{stop['rounds']:,} rounds"
    if stop.get("accuracy") is not None:
        yield f"accuracy {stop['accuracy']:g}"
    if stop.get("energy_j") is not None:
        yield f"{stop['energy_j']:,g} J"
    if stop.get("time_s") is not None:
        days = stop["time_s"] / S_PER_DAY
        yield (
            f"{days:g} days of virtual time"
            if days >= 1
            else f"{stop['time_s']:g} s of virtual time"
        )
