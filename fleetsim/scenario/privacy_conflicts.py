"""Parts of a scenario that break the promises of privacy and of secure aggregation."""

from collections.abc import Iterator

from fleetsim.learning.aggregation.aggregator_kind import AggregatorKind
from fleetsim.learning.aggregation.compression import UncompressedSettings
from fleetsim.learning.aggregation.fedavg import FedAvgSettings
from fleetsim.learning.aggregation.server_optimizers import OptimizerKind
from fleetsim.scenario.settings import Scenario, SynchronousServerSettings
from fleetsim.schema.faults import Fault
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.selectors.demands import reason_to_hide
from fleetsim.user.parts.aggregators import AggregatorPluginSettings


def of_privacy(scenario: Scenario) -> Iterator[Fault]:
    """Yield what contradicts `server.privacy`, by key."""
    server = scenario.server
    if not isinstance(server, SynchronousServerSettings) or server.privacy is None:
        return
    aggregator, selector = server.aggregator, server.selector
    if aggregator.needs_single_updates():
        message = (
            "sees single updates, and server.privacy shows it a noisy sum; use fedavg or fedadam"
            f"{_declaration(aggregator)}"
        )
        yield ("server", "aggregator", "kind"), message
    elif isinstance(aggregator, FedAvgSettings | OptimizerKind) and aggregator.weights != "uniform":
        message = "must be uniform: server.privacy bounds the share of each client alike"
        yield ("server", "aggregator", "weights"), message
    hidden = reason_to_hide(selector)
    if hidden is not None:
        message = f"spends privacy that server.privacy does not count: {hidden}; use random"
        yield ("server", "selector", "kind"), message
    elif server.privacy.sampling == "poisson" and selector != RandomSettings():
        message = (
            "supposes that every client is chosen with the same chance, which"
            " server.selector.kind: random alone does; set none"
        )
        yield ("server", "privacy", "sampling"), message


def of_secure_aggregation(scenario: Scenario) -> Iterator[Fault]:
    """Yield what contradicts `server.secure_aggregation`, by key."""
    server = scenario.server
    if not isinstance(server, SynchronousServerSettings) or server.secure_aggregation is None:
        return
    if server.aggregator.needs_single_updates():
        message = (
            "sees single updates, and server.secure_aggregation shows sums alone; use fedavg or a"
            f" server optimizer{_declaration(server.aggregator)}"
        )
        yield ("server", "aggregator", "kind"), message
    hidden = reason_to_hide(server.selector)
    if hidden is not None:
        message = f"needs what server.secure_aggregation hides: {hidden}; use random or round-robin"
        yield ("server", "selector", "kind"), message
    if not isinstance(server.compression, UncompressedSettings):
        message = "does not add up under the masks of server.secure_aggregation; set none"
        yield ("server", "compression", "kind"), message
    if server.max_update_norm is not None:
        message = "needs single updates, which server.secure_aggregation hides; leave it out"
        yield ("server", "max_update_norm"), message


def _declaration(aggregator: AggregatorKind) -> str:
    """Return the way out for an aggregator of the user's own, which may need no single updates."""
    if isinstance(aggregator, AggregatorPluginSettings):
        return ", or set sees_single_updates = False in it if it aggregates by sums alone"
    return ""
