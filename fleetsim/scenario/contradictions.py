"""Contradictions between the parts of a scenario, which the settings of one part cannot see."""

from collections.abc import Iterator

from fleetsim.counts import ceil_product
from fleetsim.engine.eligibility import least_values
from fleetsim.engine.tasks.interruption import LoseSettings, PartialSettings
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.memory import UncheckedSettings
from fleetsim.fleet.network.wifi_or_cellular import can_be_on, in_force
from fleetsim.learning.aggregation.server_optimizers import OptimizerKind
from fleetsim.learning.aggregation.uploads import UncompressedSettings
from fleetsim.learning.aggregation.weighted_mean import AggregatorKind, FedAvgSettings
from fleetsim.learning.data.built_in import BlankSettings
from fleetsim.learning.local.algorithms.settings import UNCOVERED
from fleetsim.learning.models.paper_cost import MEMORY_NEEDS, CostSettings
from fleetsim.learning.models.settings import SvmSettings
from fleetsim.learning.partition.plain import IidSettings
from fleetsim.scenario.samples import too_few_samples
from fleetsim.scenario.settings import BufferedServerSettings, Scenario, SynchronousServerSettings
from fleetsim.schema.faults import Fault
from fleetsim.selectors import demands
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.training import trainer_choice
from fleetsim.user.parts.aggregators import AggregatorPluginSettings


def contradictions(scenario: Scenario) -> list[Fault]:
    """Return the contradictions, by key."""
    result = [
        *_of_number_of_clients(scenario),
        *_of_shared_links(scenario),
        *_of_eligibility(scenario),
        *_of_aggregator(scenario),
        *_of_privacy(scenario),
        *_of_secure_aggregation(scenario),
        *_of_task(scenario),
        *_of_algorithm(scenario),
        *_of_stop(scenario),
        *_of_paper_cost(scenario),
    ]
    wrong_trainer = trainer_choice.fault(scenario.trainer, scenario.task.model, scenario.task.local)
    if wrong_trainer is not None:
        key, message = wrong_trainer
        result.append((("trainer", key), message))
    return result


def _of_paper_cost(scenario: Scenario) -> Iterator[Fault]:
    model = scenario.task.model
    if not isinstance(model, CostSettings):
        return
    if model.has_wire_sizes and not isinstance(scenario.server.compression, UncompressedSettings):
        key = "download_byte" if model.upload_byte is None else "upload_byte"
        message = "is the size on the wire, which server.compression would change; leave out one"
        yield ("task", "model", key), message
    if model.sample_byte is None and not isinstance(scenario.fleet.memory, UncheckedSettings):
        yield ("task", "model", "sample_byte"), MEMORY_NEEDS


def _of_number_of_clients(scenario: Scenario) -> Iterator[Fault]:
    server, size = scenario.server, scenario.fleet.size
    if isinstance(server, BufferedServerSettings):
        for key in ("concurrency", "buffer_size"):
            if (getattr(server, key) or 0) > size:
                yield ("server", key), f"must be at most fleet.size = {size}"
        unmet = demands.unmet(scenario.build_selector(), is_buffered=True)
        if unmet is not None:
            yield ("server", "selector", "kind"), unmet
        return
    if server.cohort > size:
        yield ("server", "cohort"), f"must be at most fleet.size = {size}"
    elif ceil_product(server.over_commit, server.cohort) > size:
        most = size * 10_000 // server.cohort / 10_000
        message = f"asks for more clients than the fleet has; must be at most {most:g}"
        yield ("server", "over_commit"), message
    if server.minimum_reports > server.cohort:
        yield ("server", "minimum_reports"), f"must be at most server.cohort = {server.cohort}"


def _of_shared_links(scenario: Scenario) -> Iterator[Fault]:
    fleet, links = scenario.fleet, scenario.fleet.shared_links
    if links is None:
        return
    if isinstance(scenario.server, BufferedServerSettings):
        message = "needs server.mode = 'synchronous', whose tasks all begin together; leave it out"
        yield ("fleet", "shared_links"), message
    if links.cells is not None and not links.has_capacities and not fleet.channel.has_band:
        message = (
            f"shares nothing: fleet.channel.kind = '{fleet.channel.kind}' has no band; give"
            " cell_up_bit_per_s or cell_down_bit_per_s, or a channel of kind 'fading'"
        )
        yield ("fleet", "shared_links", "cells"), message
    if not isinstance(scenario.server.interruption, LoseSettings):
        message = (
            "lets transfers continue later, but those that share links are computed for all tasks"
            " of a round at once; leave fleet.shared_links out, or use"
            " server.interruption.kind = 'lose'"
        )
        yield ("server", "interruption", "kind"), message


def _of_eligibility(scenario: Scenario) -> Iterator[Fault]:
    fleet, eligibility = scenario.fleet, scenario.server.eligibility
    cutoff = fleet.battery.cutoff_fraction
    if eligibility.min_battery_fraction <= cutoff:
        message = (
            f"must be above fleet.battery.cutoff_fraction = {cutoff:g}, or tasks would die as they"
            " begin"
        )
        yield ("server", "eligibility", "min_battery_fraction"), message
    asks_memory = least_values(eligibility, "min_free_ram_gib")
    if asks_memory and isinstance(fleet.memory, UncheckedSettings):
        message = "asks for min_free_ram_gib, which is unknown; set fleet.memory.kind = 'share'"
        yield ("server", "eligibility"), message


def _of_aggregator(scenario: Scenario) -> Iterator[Fault]:
    server = scenario.server
    kind, least = server.aggregator.kind, server.aggregator.least_updates
    if isinstance(server, BufferedServerSettings):
        if least > 1 and server.buffer_size is None:
            message = (
                f"closes a round with any number of updates, and server.aggregator.kind = {kind!r}"
                f" needs {least}; set server.buffer_size instead"
            )
            yield ("server", "window_s"), message
        elif server.buffer_size is not None and server.buffer_size < least:
            message = f"must be at least {least}, which server.aggregator.kind = {kind!r} needs"
            yield ("server", "buffer_size"), message
    elif server.minimum_reports < least:
        message = f"must be at least {least}, which server.aggregator.kind = {kind!r} needs"
        yield ("server", "minimum_reports"), message
    interruption = server.interruption
    if (
        isinstance(interruption, PartialSettings)
        and interruption.weight != "samples"
        and not server.aggregator.weights_parts
    ):
        message = f"must be samples: server.aggregator.kind = {kind!r} counts all updates the same"
        yield ("server", "interruption", "weight"), message


def _of_privacy(scenario: Scenario) -> Iterator[Fault]:
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
    hidden = demands.reason_to_hide(selector)
    if hidden is not None:
        message = f"spends privacy that server.privacy does not count: {hidden}; use random"
        yield ("server", "selector", "kind"), message
    elif server.privacy.sampling == "poisson" and selector != RandomSettings():
        message = (
            "supposes that every client is chosen with the same chance, which"
            " server.selector.kind: random alone does; set none"
        )
        yield ("server", "privacy", "sampling"), message


def _of_secure_aggregation(scenario: Scenario) -> Iterator[Fault]:
    server = scenario.server
    if not isinstance(server, SynchronousServerSettings) or server.secure_aggregation is None:
        return
    if server.aggregator.needs_single_updates():
        message = (
            "sees single updates, and server.secure_aggregation shows sums alone; use fedavg or a"
            f" server optimizer{_declaration(server.aggregator)}"
        )
        yield ("server", "aggregator", "kind"), message
    hidden = demands.reason_to_hide(server.selector)
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
    """Return the hint for an aggregator of the user, which may need no single updates."""
    if isinstance(aggregator, AggregatorPluginSettings):
        return ", or set sees_single_updates = False in it if it aggregates by sums alone"
    return ""


def _of_task(scenario: Scenario) -> Iterator[Fault]:
    task = scenario.task
    if isinstance(task.dataset, BlankSettings) and task.partition != IidSettings():
        yield ("task", "partition"), "the blank data set has no samples to split; leave it out"
    yield from too_few_samples(scenario)
    if scenario.fleet.usage.pair is not None and not task.partition.uses_owners:
        message = (
            f"joins people's data and phones, which task.partition.kind ="
            f" '{task.partition.kind}' mixes; set it to natural, or leave pair out"
        )
        yield ("fleet", "usage", "pair"), message
    if task.local.label_smoothing and isinstance(task.model, SvmSettings):
        message = "svm has a hinge loss, whose labels cannot be smoothed; leave it out"
        yield ("task", "local", "label_smoothing"), message
    if task.local.has_other_loss:
        if task.local.label_smoothing:
            message = (
                f"is of the cross-entropy, and task.local.loss.kind = {task.local.loss.kind!r} is"
                " another loss; leave out one of the two"
            )
            yield ("task", "local", "label_smoothing"), message
        if isinstance(task.model, SvmSettings):
            message = "is another loss than the hinge loss of svm; leave it out, or choose logistic"
            yield ("task", "local", "loss", "kind"), message
    if task.holdout_from == "everybody" and task.holdout_fraction == 0.0:
        message = "nothing is held out; set task.holdout_fraction, such as 0.2, or leave it out"
        yield ("task", "holdout_from"), message


def _of_algorithm(scenario: Scenario) -> Iterator[Fault]:
    local, server = scenario.task.local, scenario.server
    algorithm = local.algorithm
    if algorithm.kind == "none":
        return
    for key in ("privacy", "secure_aggregation"):
        if algorithm.has_server_part and getattr(server, key, None) is not None:
            yield ("server", key), UNCOVERED.format(kind=algorithm.kind)
    wrong = algorithm.fault(local)
    if wrong is not None:
        yield ("task", "local", wrong[0]), wrong[1]
    if isinstance(server, BufferedServerSettings):
        message = (
            "keeps arrays of clients, which change when a round is aggregated; use server.mode:"
            " synchronous"
        )
        yield ("task", "local", "algorithm", "kind"), message
    elif algorithm.needs_fedavg and server.aggregator.kind != "fedavg":
        message = f"does not suit task.local.algorithm.kind = {algorithm.kind!r}; use fedavg"
        yield ("server", "aggregator", "kind"), message


def _of_stop(scenario: Scenario) -> Iterator[Fault]:
    server, stop = scenario.server, scenario.stop
    if isinstance(server, BufferedServerSettings) and (server.window_s or 0.0) > stop.time_s:
        message = f"must be at most stop.time_s = {stop.time_s:g}, or no round is ever closed"
        yield ("server", "window_s"), message
    if stop.accuracy is None and not stop.ends_without_accuracy:
        if "time_s" not in stop.model_fields_set:
            message = "does not say when the run ends; set rounds, accuracy, time_s or energy_j"
            yield ("stop",), message
    elif not scenario.task.can_train:
        never = never_ends(scenario)
        if never is not None:
            yield ("stop", "accuracy"), never


def without_wifi(scenario: Scenario, files: HardwareFiles) -> list[Fault]:
    """Return a fault if eligibility asks for unmetered networks and no client is ever on one."""
    fleet = scenario.fleet
    if not scenario.server.eligibility.unmetered:
        return []
    profiles = [
        profile for name in fleet.assigned_devices for profile in load_devices(name, files=files)
    ]
    has_usage = fleet.has_usage(profiles)
    network = in_force(fleet.network, has_usage=has_usage)
    has_wifi, _ = can_be_on(network, has_usage=has_usage)
    if has_wifi or any(profile.wired_bit_per_s is not None for profile in profiles):
        return []
    message = (
        "asks for an unmetered network, and every client is on the cellular one; set"
        " fleet.network.kind = 'wifi', or name people in fleet.usage"
    )
    return [(("server", "eligibility", "unmetered"), message)]


def never_ends(scenario: Scenario) -> str | None:
    """Return why a run without training has no end, with a hint; None if it ends."""
    stop = scenario.stop
    if stop.accuracy is None or stop.ends_without_accuracy:
        return None
    return (
        "cannot be reached without training, and nothing else ends the run; set stop.rounds,"
        " stop.time_s or stop.energy_j"
    )
