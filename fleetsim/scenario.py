"""The scenario: one YAML file that says everything about a run, checked before anything starts.

Each part's settings stand beside their owner; this joins them, checks what concerns several parts
at once (a cohort larger than the fleet, a device that is not there) and gives the scenario its
identity: `content_hash` of all of it, `world_hash` of what selectors share when they are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from fleetsim import bundled, faults, overrides, strict_yaml
from fleetsim.engine.stop import StopSettings
from fleetsim.engine.synchronous import SynchronousSettings
from fleetsim.errors import ScenarioError
from fleetsim.fleet.population import FleetSettings
from fleetsim.fleet.profile import load_device, load_radio
from fleetsim.learning.blank import BlankSettings
from fleetsim.learning.data import DatasetSettings
from fleetsim.learning.partition import IidSettings, PartitionSettings
from fleetsim.learning.settings import (
    AggregatorSettings,
    FedAvgSettings,
    LocalSettings,
    ModelSettings,
)
from fleetsim.selectors import SelectorSettings
from fleetsim.selectors.fixed import FixedSettings
from fleetsim.selectors.uniform import RandomSettings
from fleetsim.settings import Settings
from fleetsim.strict_yaml import Document, KeyPath

Fault = tuple[KeyPath, str]


class TaskSettings(Settings):
    """What is learned, and how each client learns it."""

    dataset: Annotated[DatasetSettings | BlankSettings, Field(discriminator="kind")]
    partition: PartitionSettings = IidSettings()
    model: ModelSettings
    local: LocalSettings


class ServerSettings(SynchronousSettings):
    """How the server runs the training."""

    mode: Literal["synchronous"] = "synchronous"
    selector: SelectorSettings = RandomSettings()
    aggregator: AggregatorSettings = FedAvgSettings()


class EvaluateSettings(Settings):
    """When the global model is evaluated on the server's test set; costs no virtual time."""

    every_rounds: Annotated[int, Field(ge=1)] = 1
    validation_fraction: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the training samples that no client gets: the server keeps them for selectors that
    judge models, which must not look at the test set."""


class CheckpointSettings(Settings):
    """How often a run is saved so that it can go on after a kill."""

    every_rounds: Annotated[int, Field(ge=1)] = 10


class Scenario(Settings):
    """Everything about a run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    """Letters, digits, dot, dash and underscore; run folders are named after it."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Root of every random draw."""
    task: TaskSettings
    fleet: FleetSettings
    server: ServerSettings
    stop: StopSettings
    evaluate: EvaluateSettings = EvaluateSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()

    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path | None:
        """Folder from which relative paths count; None for the working folder."""
        return self._folder

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that can change the result."""
        data = self.data()
        del data["checkpoint"]
        return overrides.content_hash(data)

    @property
    def world_hash(self) -> str:
        """SHA-256 of what runs must share to be compared: seed, learning task and fleet."""
        data = self.data()
        return overrides.content_hash({key: data[key] for key in ("seed", "task", "fleet")})

    def data(self) -> dict[str, Any]:
        """The resolved scenario as plain data, every default written out."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """The resolved scenario as YAML that `load` accepts."""
        return strict_yaml.dump(self.data())


def load(path: str | Path, overrides_: Iterable[str] = (), *, seed: int | None = None) -> Scenario:
    """Read and check a scenario.

    Args:
        path: a file, or the name of a bundled scenario.
        overrides_: `KEY.PATH=VALUE` each, as of `--set`, applied in order.
        seed: replaces the scenario's seed.

    Raises:
        ScenarioError: one line per fault: place, key, value, what is allowed.
        DataError: a device, radio or trace file that it names is wrong.
    """
    changes = list(overrides_)
    if seed is not None:
        changes.append(f"seed={seed}")
    document = overrides.apply(strict_yaml.read(_find(path)), changes)
    scenario = faults.check(Scenario, document)
    scenario._folder = document.folder
    _refuse(document, _contradictions(scenario))
    _refuse(document, _missing(scenario))
    return scenario


def schema() -> dict[str, Any]:
    """JSON Schema of a scenario, for editors."""
    schema = Scenario.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "fleetsim scenario"
    return schema


def _find(path: str | Path) -> Path:
    """The file that is meant: a path, or a bundled name."""
    if Path(path).is_file():
        return Path(path)
    found = bundled.find("scenarios", str(path))
    if found is not None:
        return found
    names = bundled.names("scenarios")
    close = faults.nearest(str(path), names)
    hint = f"did you mean {close!r}?" if close else f"bundled are {', '.join(names)}"
    raise ScenarioError(f"{path}: no such file or bundled scenario; {hint}")


def _refuse(document: Document, found: Sequence[Fault]) -> None:
    if found:
        raise ScenarioError(
            *(f"{document.where(key)}: {strict_yaml.spelled(key)} {says}" for key, says in found)
        )


def _contradictions(scenario: Scenario) -> list[Fault]:
    """What single settings cannot see."""
    server, fleet = scenario.server, scenario.fleet
    found: list[Fault] = []
    if server.cohort > fleet.size:
        found.append(
            (
                ("server", "cohort"),
                f"= {server.cohort}: larger than the fleet; at most fleet.size = {fleet.size}",
            )
        )
    wanted = math.ceil(server.cohort * server.over_commit)
    if server.minimum_reports > server.cohort:
        found.append(
            (
                ("server", "minimum_reports"),
                f"= {server.minimum_reports}: more than the cohort; at most {server.cohort}",
            )
        )
    if wanted > fleet.size >= server.cohort:
        found.append(
            (
                ("server", "over_commit"),
                f"= {server.over_commit:g}: asks for {wanted} clients of {fleet.size}; at most"
                f" {fleet.size / server.cohort:g}",
            )
        )
    cutoff = fleet.battery.cutoff_fraction
    if server.eligibility.min_battery_fraction <= cutoff:
        found.append(
            (
                ("server", "eligibility", "min_battery_fraction"),
                f"= {server.eligibility.min_battery_fraction:g}: a task would die at once; must be"
                f" above fleet.battery.cutoff_fraction = {cutoff:g}",
            )
        )
    if isinstance(server.selector, FixedSettings):
        outside = [client for client in server.selector.clients if client >= fleet.size]
        if outside:
            found.append(
                (
                    ("server", "selector", "clients"),
                    f"names client {outside[0]}; clients are 0 to {fleet.size - 1}",
                )
            )
    return found


def _missing(scenario: Scenario) -> list[Fault]:
    """Files that the scenario names and that are not there."""
    found: list[Fault] = []
    beside = scenario.folder
    for name in scenario.fleet.devices:
        if bundled.find("devices", name, beside=beside) is None:
            found.append((("fleet", "devices", name), _not_there("devices", name)))
        else:
            load_device(name, beside=beside)
    channel = scenario.fleet.channel
    for key in ("unmetered_radio", "metered_radio"):
        name = getattr(channel, key)
        if bundled.find("radios", name, beside=beside) is None:
            says = f"= {name!r}: {_not_there('radios', name)}"
            found.append((("fleet", "channel", key), says))
        else:
            load_radio(name, beside=beside)
    trace = scenario.fleet.usage.trace
    if trace is not None and bundled.find("traces", trace, beside=beside) is None:
        found.append((("fleet", "usage", "trace"), f"= {trace!r}: {_not_there('traces', trace)}"))
    return found


def _not_there(kind: bundled.Kind, name: str) -> str:
    names = bundled.names(kind)
    close = faults.nearest(name, names)
    hint = f"did you mean {close!r}?" if close else f"see `fleetsim list {kind}`"
    return f"is neither bundled nor a path; {hint}"
