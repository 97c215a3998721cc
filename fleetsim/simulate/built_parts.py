"""Parts of a run that its scenario asks for: task, selector, aggregator, privacy, own training."""

import sys

from fleetsim.contracts import (
    Accountant,
    Aggregator,
    BoolArray,
    SecureSum,
    Selector,
    ServerPart,
    ServerStart,
)
from fleetsim.engine.servers.client_memory import ClientMemory
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.memory import UncheckedSettings
from fleetsim.fleet.population import paired_users
from fleetsim.learning.aggregation.privacy import (
    PrivateAggregator,
    RdpAccountant,
    SecureAggregation,
)
from fleetsim.learning.aggregation.uploads import VALUE_BYTE
from fleetsim.learning.local.algorithms.settings import UNCOVERED
from fleetsim.quoting import quoted
from fleetsim.scenario import BufferedServerSettings, Scenario, never_ends
from fleetsim.selectors import demands
from fleetsim.training.prepared_task import PreparedTask, TaskRequest


def task_request(scenario: Scenario) -> TaskRequest:
    """Return the learning task and trainer that a scenario asks for."""
    return TaskRequest(
        task=scenario.task,
        trainer=scenario.trainer,
        seed=scenario.seed,
        clients_seed=scenario.clients_seed,
        num_clients=scenario.fleet.size,
        validation_fraction=scenario.evaluate.validation_fraction,
        measures_memory=not isinstance(scenario.fleet.memory, UncheckedSettings),
        paired=paired_users(scenario.fleet, scenario.files),
    )


def build_client_memory(scenario: Scenario, prepared: PreparedTask) -> ClientMemory | None:
    """Return the arrays of the clients' own training; None with the built-in training."""
    algorithm = prepared.algorithm
    if algorithm is None:
        return None
    if isinstance(algorithm, ServerPart):
        for key in ("privacy", "secure_aggregation"):
            if getattr(scenario.server, key, None) is not None:
                message = UNCOVERED.format(kind=scenario.task.local.algorithm.kind)
                raise ScenarioError(f"server.{key}: {message}")
    return ClientMemory(
        algorithm,
        ServerStart(prepared.parameters, prepared.buffers, prepared.samples.num_samples.size),
        num_parameters=prepared.cost.num_parameters,
        user=user_part(scenario, "local"),
    )


def user_part(scenario: Scenario, kind: str) -> UserPart | None:
    """Return the plug-in of a kind as messages of a run name it; None: the part is fleetsim's."""
    for plugin in scenario.plugins:
        if plugin.kind.name == kind:
            module_name, _, name = plugin.name.partition(":")
            part = getattr(sys.modules.get(module_name), name, None)
            module = sys.modules.get(getattr(part, "__module__", module_name))
            return UserPart(plugin.label, getattr(module, "__file__", None))
    return None


def build_selector(scenario: Scenario, *, train: bool) -> Selector:
    """Return the scenario's selector."""
    selector = scenario.build_selector()
    is_buffered = isinstance(scenario.server, BufferedServerSettings)
    message = demands.unmet(selector, is_trained=train, is_buffered=is_buffered)
    if message is not None:
        raise ScenarioError(
            f"server.selector.kind = {quoted(scenario.server.selector.kind)} {message}"
        )
    never = None if train else never_ends(scenario)
    if never is not None:
        raise ScenarioError(f"stop.accuracy = {scenario.stop.accuracy:g}: {never}")
    return selector


def build_aggregator(scenario: Scenario, buffers: BoolArray) -> Aggregator:
    """Return the scenario's aggregator, behind noise if it asks for privacy."""
    server = scenario.server
    aggregator: Aggregator = server.aggregator.build(buffers=buffers)
    if isinstance(server, BufferedServerSettings) or server.privacy is None:
        return aggregator
    return PrivateAggregator(
        server.privacy, aggregator, seed=scenario.seed, cohort=server.cohort, buffers=buffers
    )


def build_secure_sum(scenario: Scenario, prepared: PreparedTask) -> SecureSum | None:
    """Return the secure aggregation of the scenario's model; None if there is none."""
    server = scenario.server
    if isinstance(server, BufferedServerSettings) or server.secure_aggregation is None:
        return None
    return SecureAggregation(
        server.secure_aggregation,
        num_values=-(-prepared.cost.payload_byte // VALUE_BYTE),
        seed=scenario.seed,
    )


def build_accountant(scenario: Scenario, *, train: bool) -> Accountant | None:
    """Return the accountant of a run that trains with privacy; None of another."""
    server = scenario.server
    if isinstance(server, BufferedServerSettings) or server.privacy is None or not train:
        return None
    return RdpAccountant(server.privacy)
