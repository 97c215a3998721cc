"""The settings of a whole scenario, which joins those of its parts, and its hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from fleetsim.contracts import Selector
from fleetsim.engine.servers.buffered import BufferedSettings
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.engine.servers.synchronous import SynchronousSettings
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.network.channels.blocks import BlockSettings
from fleetsim.fleet.settings import FleetSettings
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings
from fleetsim.learning.aggregation.privacy import CentralPrivacySettings, SecureAggregationSettings
from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.learning.aggregation.uploads import CompressionSettings, UncompressedSettings
from fleetsim.learning.aggregation.weighted_mean import FedAvgSettings
from fleetsim.schema import overrides, strict_yaml
from fleetsim.schema.explained_keys import USUAL_KIND
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.schema.ranges import Gain, Rounds
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.selectors import SelectorSettings
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.settings import DEFAULTS_VERSION, Settings
from fleetsim.training.settings import TaskSettings, TrainerSettings
from fleetsim.user import Plugin, given_plugin
from fleetsim.user.loading import extended
from fleetsim.user.parts.selectors import guarded

WORLD: tuple[tuple[str, ...], ...] = (
    ("seed",),
    ("task",),
    ("fleet",),
    ("energy",),
    ("evaluate", "validation_fraction"),
)
"""Parts that compared runs must share."""


_NOT_OF_CLIENTS = ("model", "local")
"""Parts of the task that do not change who the clients are."""

MaxUpdateNorm = Gain | None


class SynchronousServerSettings(SynchronousSettings):
    """Server in rounds: select a cohort, wait for its updates, aggregate."""

    acts_if = by_key(max_update_norm=TRAINING, aggregator=TRAINING, privacy=TRAINING)

    mode: Literal["synchronous"] = "synchronous"
    """Server mode: a round ends when its cohort has answered."""
    selector: SelectorSettings = RandomSettings()
    """Rule that selects the clients of a round, by its kind."""
    compression: CompressionSettings = UncompressedSettings()
    """Compression of the updates that clients upload, by its kind."""
    max_update_norm: MaxUpdateNorm = None
    """Updates with a larger Euclidean norm are refused; null: only those that are not finite."""
    aggregator: AggregatorSettings = FedAvgSettings()
    """Rule that makes the new global model of the updates, by its kind."""
    privacy: CentralPrivacySettings | None = None
    """Differential privacy of clients; null: none."""
    secure_aggregation: SecureAggregationSettings | None = None
    """Protocol that shows the server sums of updates alone; null: it sees each update."""


class BufferedServerSettings(BufferedSettings):
    """Server that aggregates updates as they arrive, or in windows."""

    acts_if = by_key(max_update_norm=TRAINING, aggregator=TRAINING)

    mode: Literal["buffered"]
    """Server mode: rounds are closed by answers or by the clock."""
    selector: SelectorSettings = RandomSettings()
    """Rule that selects the clients of a round, by its kind."""
    compression: CompressionSettings = UncompressedSettings()
    """Compression of the updates that clients upload, by its kind."""
    max_update_norm: MaxUpdateNorm = None
    """Updates with a larger Euclidean norm are refused; null: only those that are not finite."""
    aggregator: AggregatorSettings = FedBuffSettings()
    """Rule that makes the new global model of the updates, by its kind."""


ServerSettings = Annotated[
    SynchronousServerSettings | BufferedServerSettings,
    Field(discriminator="mode", json_schema_extra={USUAL_KIND: "synchronous"}),
]


class EvaluateSettings(Settings):
    """Evaluation of the global model on the server's test set; it takes no virtual time."""

    acts_if = by_key(every_rounds=TRAINING, validation_fraction=TRAINING)

    every_rounds: Rounds = 1
    """Rounds from one evaluation to the next; round `stop.rounds` is evaluated, too."""
    validation_fraction: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the training samples that no client gets. The server keeps them for selectors that
    evaluate models, which must not use the test set."""


class CheckpointSettings(Settings):
    """Saving of a run, from which it resumes after a kill."""

    every_rounds: Rounds = 10
    """Rounds from one checkpoint to the next."""


class Scenario(Settings):
    """All settings of a run."""

    plugins: ClassVar[tuple[Plugin, ...]] = ()
    """Parts of the user's own that stand in it; all others are fleetsim's."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    """Letters, digits, dot, dash and underscore; run folders are named after it."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Root of every random draw."""
    task: TaskSettings
    """Task: data, their partition, the network and its local training."""
    fleet: FleetSettings
    """Clients: devices, network, people, batteries and heat."""
    server: ServerSettings
    """Server: rounds or a buffer, selector, aggregator, deadline and eligibility."""
    stop: StopSettings
    """Rules that end the run; the first that holds."""
    energy: EnergySettings = EnergySettings()
    """Joules that clients are charged with besides those of their tasks."""
    evaluate: EvaluateSettings = EvaluateSettings()
    """Evaluations of the global model."""
    trainer: TrainerSettings = TrainerSettings()
    """Computation of local training on the host."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """Saving of the run."""

    _inert: tuple[str, ...] = PrivateAttr(default=())
    """Warnings of `load` about keys without effect; see `scenario_warnings`."""
    _files: HardwareFiles = PrivateAttr(default_factory=HardwareFiles)

    @property
    def files(self) -> HardwareFiles:
        """Device and radio files that the scenario names, as `load` read them."""
        return self._files

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that can change the result, every default included."""
        return overrides.scenario_hash(self.data())

    @property
    def clients_seed(self) -> int:
        """Seed of the fleet and of who holds which samples."""
        return self.seed if self.fleet.seed is None else self.fleet.seed

    @property
    def clients_hash(self) -> str:
        """SHA-256 of who the clients are: fleet, data and partition, with their seed.

        Without the law of their rates (`fleet.channel.rate`): it changes what their links carry,
        not who they are, and weights learned before the law was a key hold on.
        """
        task, channel, fleet = self.task.stated(), self.fleet.channel, self.fleet
        if isinstance(channel, BlockSettings) and channel.rate is not None:
            channel = channel.model_copy(update={"rate": None})
            fleet = fleet.model_copy(update={"channel": channel})
        parts = [key for key in task if key not in _NOT_OF_CLIENTS]
        who = {
            "defaults": DEFAULTS_VERSION,
            "fleet": {**fleet.stated(), "seed": self.clients_seed},
            "task": {key: task[key] for key in parts},
            "validation_fraction": self.evaluate.validation_fraction,
        }
        return overrides.content_hash(who | self._sources([("task", key) for key in parts]))

    @property
    def definition_hash(self) -> str:
        """SHA-256 of everything that can change the result, without values that are defaults.

        So keys that later versions add do not change it.
        """
        stated = {key: value for key, value in self.stated().items() if key != "checkpoint"}
        what = {"defaults": DEFAULTS_VERSION, "scenario": stated}
        return overrides.content_hash(what | self._sources([()]))

    @property
    def world_hash(self) -> str:
        """SHA-256 of what compared runs must share, `WORLD`."""
        data: Any = self.data()
        world = {strict_yaml.spelled(path): reduce(getitem, path, data) for path in WORLD}
        return overrides.content_hash(world | self._sources(WORLD))

    def _sources(self, parts: Sequence[KeyPath]) -> dict[str, Any]:
        """Return an item of a hash: the files of plug-ins in some parts, which say what they do."""
        sources = [
            [plugin.kind.name, plugin.name, plugin.source_sha256]
            for plugin in self.plugins
            if plugin.kind.key_path is not None
            and any(plugin.kind.key_path[: len(part)] == part for part in parts)
        ]
        return {"plugins": sorted(sources)} if sources else {}

    def data(self) -> dict[str, Any]:
        """Return the resolved scenario as plain data, with every default."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """Return the resolved scenario as YAML that `load` accepts."""
        return strict_yaml.dump(self.data())

    def build_selector(self) -> Selector:
        """Build the selector; a plug-in that cannot be made or is none is a `ScenarioError`."""
        plugin = self.selector_plugin
        if plugin is None:
            return self.server.selector.build()
        settings = self.server.selector
        return guarded(plugin.build(settings), plugin.build(settings), plugin.label)

    @property
    def selector_plugin(self) -> Plugin | None:
        """Plug-in that `server.selector` names; None: it is a selector of fleetsim."""
        return next((plugin for plugin in self.plugins if plugin.kind.name == "selector"), None)

    def check_plugins(self) -> None:
        """Build every plug-in once, to check that it can be."""
        for plugin in self.plugins:
            settings: Any = self
            for key in plugin.kind.key_path or ():
                settings = getattr(settings, str(key))
            plugin.build(settings)

    def plugins_with(self, others: Sequence[Plugin]) -> tuple[Plugin, ...]:
        """Return the plug-ins of this scenario and others, which take the place of theirs."""
        places = [other.kind.key_path for other in others]
        kept = [plugin for plugin in self.plugins if plugin.kind.key_path not in places]
        return (*kept, *others)

    def with_selector(self, selector: Selector) -> Scenario:
        """Return this scenario with another selector, which exists already."""
        plugin, data = given_plugin("selector", selector), self.data()
        data["server"]["selector"] = {"kind": plugin.word}
        return self._replaced(class_with(self.plugins_with([plugin])), data)

    def with_seed(self, seed: int) -> Scenario:
        """Return this scenario with another seed."""
        return self._replaced(type(self), {**self.data(), "seed": seed})

    def with_clients_seed(self, seed: int) -> Scenario:
        """Return this scenario with the clients of a seed, whatever its own."""
        data = self.data()
        data["fleet"]["seed"] = seed
        return self._replaced(type(self), data)

    def with_selector_settings(self, changes: Mapping[str, Any]) -> Scenario:
        """Return this scenario with other values of its selector's settings, which are checked."""
        data = self.data()
        data["server"]["selector"] |= changes
        return self._replaced(type(self), data)

    def _replaced(self, of: type[Scenario], data: dict[str, Any]) -> Scenario:
        made = of.model_validate(data)
        made._inert, made._files = self._inert, self._files
        return made


def class_with(plugins: Sequence[Plugin]) -> type[Scenario]:
    """Return the scenario's class, with the kinds of plug-ins if there are any."""
    if not plugins:
        return Scenario
    added: dict[KeyPath, list[type[Settings]]] = {}
    for plugin in plugins:
        if plugin.kind.key_path is not None:
            added.setdefault(plugin.kind.key_path, []).append(plugin.settings)
    made = extended(Scenario, added)
    made.plugins = tuple(plugins)
    return made
