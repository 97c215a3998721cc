"""The scenario: one YAML file that says everything about a run, checked before anything starts.

Each part's settings stand beside their owner; this joins them, checks what concerns several parts
at once (a cohort larger than the fleet, a device that is not there) and gives the scenario its
identity: `content_hash` of all of it, `world_hash` of what selectors share when they are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import Field, PrivateAttr, create_model

from fleetsim import bundled, named_files
from fleetsim.contracts import Selector
from fleetsim.counts import ceil_product
from fleetsim.engine.eligibility import least_values
from fleetsim.engine.servers.buffered import BufferedSettings
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.engine.servers.synchronous import SynchronousSettings
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.engine.tasks.interruption import NOT_SHARED, LoseSettings
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.memory import UncheckedSettings
from fleetsim.fleet.network.wifi_or_cellular import in_force
from fleetsim.fleet.population import FleetSettings, places_m
from fleetsim.host import memory
from fleetsim.inert_keys import Inert, ScenarioFacts, inert_keys
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings
from fleetsim.learning.aggregation.compression import CompressionSettings, UncompressedSettings
from fleetsim.learning.aggregation.fedavg import FedAvgSettings
from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.learning.data.blank import BlankSettings
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.own_folder import FolderSettings
from fleetsim.learning.partition.client_samples import ClientSamples, split_samples
from fleetsim.learning.partition.iid import IidSettings
from fleetsim.learning.partition.shortages import shortages
from fleetsim.learning.training import trainer_choice
from fleetsim.learning.training.settings import TaskSettings, TrainerSettings
from fleetsim.plugin import Plugin, load_plugin, plugin_of, refuse_strangers
from fleetsim.quoting import MAX_LINES, listed, quoted
from fleetsim.record.run_folder import scenario_hash
from fleetsim.schema import faults, overrides, strict_yaml
from fleetsim.schema.effects import TRAINING, by_key
from fleetsim.schema.faults import Fault
from fleetsim.schema.ranges import Gain, Rounds
from fleetsim.schema.strict_yaml import Document
from fleetsim.selectors import SelectorSettings, build_selector, requirements
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.selectors.bp_ucb import BpUcbSettings
from fleetsim.settings import Settings

WORLD: tuple[tuple[str, ...], ...] = (
    ("seed",),
    ("task",),
    ("fleet",),
    ("energy",),
    ("evaluate", "validation_fraction"),
)
"""Parts that runs must share to be compared; what is left is the server's doing."""


LEAST_BYTE_PER_CLIENT = 350
"""Memory of a run, at its largest and at least, for each client of the fleet.

The largest traced memory of a run without training grew by 378 to 403 bytes a client (phones with
people, phones and servers without); this is less, so that nothing is refused that would fit.
"""
_BYTE_PER_GIB = 1 << 30


MaxUpdateNorm = Gain | None


class SynchronousServerSettings(SynchronousSettings):
    """Rounds: choose a cohort, wait for its answers, aggregate."""

    acts_if = by_key(
        max_update_norm=TRAINING,
        aggregator=TRAINING,
    )

    mode: Literal["synchronous"] = "synchronous"
    selector: SelectorSettings = RandomSettings()
    compression: CompressionSettings = UncompressedSettings()
    max_update_norm: MaxUpdateNorm = None
    """Updates with a larger Euclidean norm are refused; null: only those that are not finite."""
    aggregator: AggregatorSettings = FedAvgSettings()


class BufferedServerSettings(BufferedSettings):
    """Clients at their own pace; answers are aggregated as they come, or in windows."""

    acts_if = by_key(
        max_update_norm=TRAINING,
        aggregator=TRAINING,
    )

    mode: Literal["buffered"]
    selector: SelectorSettings = RandomSettings()
    compression: CompressionSettings = UncompressedSettings()
    max_update_norm: MaxUpdateNorm = None
    """Updates with a larger Euclidean norm are refused; null: only those that are not finite."""
    aggregator: AggregatorSettings = FedBuffSettings()


ServerSettings = Annotated[
    SynchronousServerSettings | BufferedServerSettings, Field(discriminator="mode")
]


class EvaluateSettings(Settings):
    """When the global model is evaluated on the server's test set; costs no virtual time."""

    acts_if = by_key(
        every_rounds=TRAINING,
        validation_fraction=TRAINING,
    )

    every_rounds: Rounds = 1
    validation_fraction: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the training samples that no client gets: the server keeps them for selectors that
    judge models, which must not look at the test set."""


class CheckpointSettings(Settings):
    """How often a run is saved so that it can go on after a kill."""

    every_rounds: Rounds = 10


class Scenario(Settings):
    """Everything about a run."""

    plugin: ClassVar[Plugin | None] = None
    """The selector of the user's own that `server.selector` is; None: it is one of fleetsim's."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    """Letters, digits, dot, dash and underscore; run folders are named after it."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Root of every random draw."""
    task: TaskSettings
    fleet: FleetSettings
    server: ServerSettings
    stop: StopSettings
    energy: EnergySettings = EnergySettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    trainer: TrainerSettings = TrainerSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()

    _inert: tuple[str, ...] = PrivateAttr(default=())
    """Lines on keys that `load` found to have no effect; see `doubts`."""
    _files: HardwareFiles = PrivateAttr(default_factory=HardwareFiles)

    @property
    def files(self) -> HardwareFiles:
        """Device and radio files that the scenario names, as `load` read them."""
        return self._files

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that can change the result."""
        return scenario_hash(self.data())

    @property
    def world_hash(self) -> str:
        """SHA-256 of what runs must share to be compared, `WORLD`."""
        world: dict[str, Any] = {}
        for path in WORLD:
            part: Any = self.data()
            for key in path:
                part = part[key]
            world[strict_yaml.spelled(path)] = part
        return overrides.content_hash(world)

    def data(self) -> dict[str, Any]:
        """The resolved scenario as plain data, every default written out."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """The resolved scenario as YAML that `load` accepts."""
        return strict_yaml.dump(self.data())

    def build_selector(self) -> Selector:
        """New selector as `server.selector` says.

        Raises:
            ScenarioError: it is the user's own, and cannot be made or is no selector.
        """
        if self.plugin is None:
            return build_selector(self.server.selector)
        return self.plugin.build(self.server.selector)

    def with_selector(self, selector: Selector) -> Scenario:
        """This scenario with a selector that was made already in the place of its own."""
        own = plugin_of(selector)
        data = self.data()
        data["server"]["selector"] = {"kind": own.kind}
        made = _class_with(own).model_validate(data)
        made._inert, made._files = self._inert, self._files
        return made


def load(
    path: str | Path,
    overrides_: Iterable[str] = (),
    *,
    seed: int | None = None,
    plugin: str | None = None,
) -> Scenario:
    """Read and check a scenario.

    Args:
        path: a file, or the name of a bundled scenario.
        overrides_: `KEY.PATH=VALUE` each, as of `--set`, applied in order.
        seed: replaces the scenario's seed.
        plugin: `MODULE:CLASS` of a selector of your own, see `fleetsim.plugin`; is imported.

    Raises:
        ScenarioError: one line per fault: place, key, value, what is allowed.
        DataError: a device, radio or trace file that it names is wrong.
    """
    changes = list(overrides_)
    if seed is not None:
        changes.append(f"seed={seed}")
    own = None if plugin is None else load_plugin(plugin)
    document = overrides.apply(strict_yaml.read(_find(path)), changes)
    if own is None:
        refuse_strangers(document)
    else:
        document = own.placed(document)
    scenario = faults.check(_class_with(own), _synchronous_unless_said(document))
    files = HardwareFiles()
    found = _contradictions(scenario)
    found += named_files.missing(scenario.fleet, document.folder, files)
    found += named_files.unusable_folder(
        getattr(scenario.task.dataset, "folder", None), document.folder
    )
    found += [] if found else _without_wifi(scenario, document.folder, files)
    dataset = scenario.task.dataset
    if isinstance(dataset, FolderSettings) and not found:
        home = named_files.own_folder(dataset.folder, document.folder)
        found += _too_few_samples(scenario, own_folder=home)
    if found:
        lines = [faults.line(document, key, says) for key, says in found[:MAX_LINES]]
        raise ScenarioError(*listed(lines, num_unsaid=len(found) - len(lines)))
    _require_memory(scenario, document)
    _set_selector_up(scenario, document)
    # Files of the user's own are found from anywhere.
    data = named_files.with_absolute_paths(scenario.data(), document.folder)
    try:
        strict_yaml.dump(data)
    except ValueError as cause:
        raise ScenarioError(
            f"{document.source}: with its defaults it {cause}; name fewer clients or devices"
        ) from None
    resolved = type(scenario).model_validate(data)
    resolved._files = files
    _look_for_inert_keys(resolved, document)
    return resolved


def _look_for_inert_keys(scenario: Scenario, document: Document) -> None:
    """Refuse entries that cannot act whatever else is set, and keep a line on all else inert.

    Raises:
        ScenarioError: an entry is refused.
    """
    facts = ScenarioFacts(
        fleet=scenario.fleet,
        files=scenario.files,
        seed=scenario.seed,
        is_buffered=isinstance(scenario.server, BufferedServerSettings),
        can_train=not isinstance(scenario.task.dataset, BlankSettings),
        partition=scenario.task.partition.kind,
        last_round=scenario.stop.last_round,
    )
    found = list(inert_keys(scenario, document.data, facts))
    if any(each.is_refused for each in found):
        raise ScenarioError(*_lines(document, [each for each in found if each.is_refused]))
    scenario._inert = tuple(_lines(document, found))


def _lines(document: Document, found: Sequence[Inert]) -> list[str]:
    """A line on each key, up to `MAX_LINES`, and how many more there are."""
    lines = [faults.line(document, each.key_path, each.says) for each in found[:MAX_LINES]]
    return listed(lines, num_unsaid=len(found) - len(lines))


def schema(plugin: str | None = None) -> dict[str, Any]:
    """JSON Schema of a scenario, for editors; with the kind of a selector of your own.

    Raises:
        ScenarioError: the selector cannot be imported or used.
    """
    own = None if plugin is None else load_plugin(plugin)
    schema = _class_with(own).model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "fleetsim scenario"
    return schema


def _class_with(own: Plugin | None) -> type[Scenario]:
    """The scenario's class, with one more kind of selector if there is one."""
    if own is None:
        return Scenario
    union: Any = Union  # of types that are known only now
    selector = union[(*get_args(get_args(SelectorSettings)[0]), own.settings)]
    of_kind: Any = Field(RandomSettings(), discriminator="kind")
    modes = tuple(
        create_model(mode.__name__, __base__=mode, selector=(selector, of_kind))
        for mode in (SynchronousServerSettings, BufferedServerSettings)
    )
    of_mode: Any = Field(discriminator="mode")
    made = create_model("Scenario", __base__=Scenario, server=(union[modes], of_mode))
    made.plugin = own
    return made


def _find(path: str | Path) -> Path:
    """The file that is meant: a path, or a bundled name."""
    found = named_files.find("scenarios", str(path), None)
    if found is not None:
        return found
    name = str(path)
    raise ScenarioError(f"scenario {quoted(name)}: {bundled.not_found('scenarios', name)}")


def _synchronous_unless_said(document: Document) -> Document:
    """The document with a server mode."""
    server = document.data.get("server")
    if not isinstance(server, dict) or "mode" in server:
        return document
    data = {**document.data, "server": {"mode": "synchronous", **server}}
    return dataclasses.replace(document, data=data)


def _contradictions(scenario: Scenario) -> list[Fault]:
    """What single settings cannot see."""
    server, fleet = scenario.server, scenario.fleet
    found: list[Fault] = []
    if isinstance(server, BufferedServerSettings):
        if server.concurrency > fleet.size:
            says = f"must be at most fleet.size = {fleet.size}"
            found.append((("server", "concurrency"), says))
        if fleet.shared_links is not None:
            says = "needs server.mode = 'synchronous', whose tasks all begin together; leave it out"
            found.append((("fleet", "shared_links"), says))
        unmet = requirements.unmet(scenario.build_selector(), is_buffered=True)
        if unmet is not None:
            found.append((("server", "selector", "kind"), unmet))
    elif server.cohort > fleet.size:
        found.append((("server", "cohort"), f"must be at most fleet.size = {fleet.size}"))
    elif ceil_product(server.over_commit, server.cohort) > fleet.size:
        most = fleet.size * 10_000 // server.cohort / 10_000
        says = f"asks for more clients than the fleet has; must be at most {most:g}"
        found.append((("server", "over_commit"), says))
    if (
        fleet.shared_links is not None
        and fleet.shared_links.cells is not None
        and not fleet.shared_links.has_capacities
        and not fleet.channel.has_band
    ):
        says = (
            f"shares nothing: fleet.channel.kind = '{fleet.channel.kind}' has no band; give"
            " cell_up_bit_per_s or cell_down_bit_per_s, or a channel of kind 'fading'"
        )
        found.append((("fleet", "shared_links", "cells"), says))
    if fleet.shared_links is not None and not isinstance(server.interruption, LoseSettings):
        found.append((("server", "interruption", "kind"), NOT_SHARED))
    if isinstance(server, SynchronousServerSettings) and server.minimum_reports > server.cohort:
        says = f"must be at most server.cohort = {server.cohort}"
        found.append((("server", "minimum_reports"), says))
    cutoff = fleet.battery.cutoff_fraction
    if server.eligibility.min_battery_fraction <= cutoff:
        says = (
            f"must be above fleet.battery.cutoff_fraction = {cutoff:g}, or tasks would die as they"
            " begin"
        )
        found.append((("server", "eligibility", "min_battery_fraction"), says))
    if isinstance(fleet.memory, UncheckedSettings) and least_values(
        server.eligibility, "min_free_ram_gib"
    ):
        says = "asks for min_free_ram_gib, which nobody knows; set fleet.memory.kind = 'share'"
        found.append((("server", "eligibility"), says))
    task = scenario.task
    if isinstance(task.dataset, BlankSettings) and task.partition != IidSettings():
        says = "the blank data set has no samples to split; leave it out"
        found.append((("task", "partition"), says))
    found.extend(_too_few_samples(scenario))
    stop = scenario.stop
    if stop.accuracy is None and not stop.ends_without_accuracy:
        if "time_s" not in stop.model_fields_set:
            says = "says nothing of when the run ends; set rounds, accuracy, time_s or energy_j"
            found.append((("stop",), says))
    elif isinstance(task.dataset, BlankSettings):
        never = never_ends(scenario)
        if never is not None:
            found.append((("stop", "accuracy"), never))
    if task.holdout_from == "everybody" and task.holdout_fraction == 0.0:
        says = "nothing is held out; set task.holdout_fraction, such as 0.2, or leave it out"
        found.append((("task", "holdout_from"), says))
    wrong_trainer = trainer_choice.fault(scenario.trainer, scenario.task.model)
    if wrong_trainer is not None:
        key, says = wrong_trainer
        found.append((("trainer", key), says))
    return found


def _without_wifi(scenario: Scenario, beside: Path | None, files: HardwareFiles) -> list[Fault]:
    """Whether eligibility asks for unmetered networks, on which nobody ever is."""
    fleet = scenario.fleet
    if not scenario.server.eligibility.unmetered:
        return []
    profiles = [
        profile
        for name in fleet.assigned_devices
        for profile in load_devices(name, beside=beside, files=files)
    ]
    has_usage = fleet.has_usage(profiles)
    has_wifi, _ = in_force(fleet.network, has_usage=has_usage).can_be_on(has_usage=has_usage)
    if has_wifi or any(profile.wired is not None for profile in profiles):
        return []
    says = (
        "asks for an unmetered network, and every client is on the cellular one; set"
        " fleet.network.kind = 'wifi', or name people in fleet.usage"
    )
    return [(("server", "eligibility", "unmetered"), says)]


def _too_few_samples(scenario: Scenario, own_folder: Path | None = None) -> Iterator[Fault]:
    """What a fleet asks of a data set whose size is known without its samples.

    Args:
        scenario: the scenario.
        own_folder: where a data set of the user's own lies; None: its files are not looked at.

    Raises:
        DataError: a file of the folder is damaged, or larger than is read.
    """
    task = scenario.task
    if isinstance(task.dataset, BlankSettings):
        return iter(())
    return shortages(
        task.dataset,
        task.partition,
        num_clients=scenario.fleet.size,
        validation_fraction=scenario.evaluate.validation_fraction,
        holdout_fraction=task.holdout_fraction,
        own_folder=own_folder,
    )


def samples_of(scenario: Scenario, dataset: Dataset) -> ClientSamples:
    """Which samples of its data set the server and every client of a scenario have.

    Raises:
        ScenarioError: they cannot be split so.
    """
    task = scenario.task
    return split_samples(
        dataset,
        task.partition,
        num_clients=scenario.fleet.size,
        validation_fraction=scenario.evaluate.validation_fraction,
        holdout_fraction=task.holdout_fraction,
        holdout_from=task.holdout_from,
        seed=scenario.seed,
    )


def never_ends(scenario: Scenario) -> str | None:
    """Why a run without training has no end, and the way out; None if it has one."""
    stop = scenario.stop
    if stop.accuracy is None or stop.ends_without_accuracy:
        return None
    return (
        "cannot be reached without training, and nothing else ends the run; set stop.rounds,"
        " stop.time_s or stop.energy_j"
    )


def _require_memory(scenario: Scenario, document: Document) -> None:
    """Look that the fleet fits into memory, before anything as large as it is made.

    Raises:
        ScenarioError: it does not.
    """
    size, usable = scenario.fleet.size, memory.usable_byte()
    if usable is not None and size * LEAST_BYTE_PER_CLIENT > usable:
        says = (
            f"takes at least {size * LEAST_BYTE_PER_CLIENT / _BYTE_PER_GIB:.0f} GiB of memory, of"
            f" which there are {usable / _BYTE_PER_GIB:.1f}; lower it to"
            f" {usable // LEAST_BYTE_PER_CLIENT} or less, or take a larger machine"
        )
        raise ScenarioError(faults.line(document, ("fleet", "size"), says))


def _set_selector_up(scenario: Scenario, document: Document) -> None:
    """Let the selector say whether the scenario suits it.

    One of somebody's own is not asked: its `setup` may well look at data and model, which are not
    there yet.

    Raises:
        ScenarioError: it does not.
    """
    if scenario.plugin is not None:
        return
    server, local = scenario.server, scenario.task.local
    cohort = server.concurrency if isinstance(server, BufferedServerSettings) else server.cohort
    try:
        requirements.set_up(
            build_selector(server.selector),
            seed=scenario.seed,
            num_clients=scenario.fleet.size,
            cohort=cohort,
            epochs=local.epochs or 0,
            steps=local.steps,
            batch_size=local.batch_size,
            learning_rate=local.optimizer.learning_rate,
            planned_rounds=scenario.stop.rounds,
            has_validation=scenario.evaluate.validation_fraction > 0.0,
        )
    except ScenarioError as fault:
        place = document.where(("server", "selector"))
        raise ScenarioError(*(f"{place}: {line}" for line in fault.faults)) from None


def reproductions(scenario: Scenario) -> list[tuple[str, str]]:
    """Devices of a loaded scenario that are not physical, by their names in tables, and why."""
    profiles = [
        profile
        for name in scenario.fleet.devices
        for profile in load_devices(name, files=scenario.files)
    ]
    return [(p.name, p.reproduction) for p in profiles if p.reproduction is not None]


def doubts(scenario: Scenario, *, train: bool = True) -> list[str]:
    """Warnings about a loaded scenario, one line each: what it may be run with, if one knows.

    Args:
        scenario: the scenario.
        train: whether it is to be run with training.
    """
    said = [
        f"fleet.devices: {name} is a reproduction, not physical: {why}"
        for name, why in reproductions(scenario)
    ]
    said.extend(scenario._inert)
    can_train = not isinstance(scenario.task.dataset, BlankSettings)
    if can_train and not train and scenario.stop.accuracy is not None:
        said.append(
            f"stop.accuracy = {scenario.stop.accuracy:g}: has no effect: a run without training has"
            " no accuracy; another rule ends it"
        )
    selector, fleet, seed = scenario.server.selector, scenario.fleet, scenario.seed
    if isinstance(selector, BpUcbSettings):
        position_m = places_m(fleet.channel, seed=seed, size=fleet.size)
        says = selector.warning(position_m, num_clients=fleet.size, seed=seed)
        if says is not None:
            said.append(f"server.selector: {says}")
    return said
