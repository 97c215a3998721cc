"""Outline of a scenario in five parts: task, fleet, server, end, and identity of the run."""

from collections.abc import Iterator

from fleetsim.engine.servers.stop import StopSettings
from fleetsim.fleet.devices.assignment import device_counts
from fleetsim.fleet.settings import FleetSettings
from fleetsim.quoting import counted
from fleetsim.scenario.settings import BufferedServerSettings, Scenario, SynchronousServerSettings
from fleetsim.training.settings import TaskSettings
from fleetsim.units import S_PER_DAY

_MOST_DEVICES = 6
_HASH_LENGTH = 8


def outline(scenario: Scenario) -> dict[str, str]:
    """Return the five parts by their labels."""
    return {
        "task": _task(scenario.task),
        "fleet": ", ".join(_fleet(scenario.fleet)),
        "server": ", ".join(_server(scenario.server)),
        "stop": " or ".join(_stops(scenario.stop)),
        "run": f"seed {scenario.seed}, folder runs/{scenario.name}-"
        f"{scenario.content_hash[:_HASH_LENGTH]} unless --out is given",
    }


def _task(task: TaskSettings) -> str:
    local = task.local
    length = (
        counted(local.epochs, "epoch") if local.epochs is not None else f"{local.steps} SGD steps"
    )
    return (
        f"data {task.dataset.kind}, partition {task.partition.kind}, model {task.model.kind},"
        f" {length} in batches of {local.batch_size}"
    )


def _fleet(fleet: FleetSettings) -> Iterator[str]:
    numbers = device_counts(fleet.devices, size=fleet.size).tolist()
    counts = sorted(zip(fleet.devices, numbers, strict=True), key=lambda pair: -pair[1])
    kinds = [f"{number:,} {name}" for name, number in counts[:_MOST_DEVICES]]
    if len(counts) > _MOST_DEVICES:
        kinds.append(f"{len(counts) - _MOST_DEVICES} more kinds")
    yield f"{fleet.size:,} clients ({', '.join(kinds)})"
    yield f"channel {fleet.channel.kind}"
    if fleet.usage.trace is not None:
        yield f"people of {fleet.usage.trace}"


def _server(server: SynchronousServerSettings | BufferedServerSettings) -> Iterator[str]:
    yield f"{server.mode}"
    if isinstance(server, BufferedServerSettings):
        yield f"{server.concurrency:,} clients at work"
        closes = f"{server.window_s:g} s" if server.buffer_size is None else server.buffer_size
        yield f"a round every {closes}" + ("" if server.buffer_size is None else " answers")
    else:
        yield f"cohort {server.cohort:,}"
        if server.over_commit > 1.0:
            yield f"over-commitment {server.over_commit:g}"
    yield f"selector {server.selector.kind}"
    yield f"aggregator {server.aggregator.kind}"
    yield "no deadline" if server.deadline_s is None else f"deadline {server.deadline_s:g} s"


def _stops(stop: StopSettings) -> Iterator[str]:
    if stop.rounds is not None:
        yield f"{stop.rounds:,} rounds"
    if stop.accuracy is not None:
        yield f"accuracy {stop.accuracy:g}"
    if stop.energy_j is not None:
        yield f"{stop.energy_j:,g} J"
    days = stop.time_s / S_PER_DAY
    yield f"{days:g} days of virtual time" if days >= 1 else f"{stop.time_s:g} s of virtual time"
