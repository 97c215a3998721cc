"""Contradictions between the parts of a scenario, which the settings of one part cannot see."""

from __future__ import annotations

from pathlib import Path

from fleetsim.counts import ceil_product
from fleetsim.engine.eligibility import least_values
from fleetsim.engine.tasks.interruption import NOT_SHARED, LoseSettings
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.memory import UncheckedSettings
from fleetsim.fleet.network.wifi_or_cellular import in_force
from fleetsim.learning.data.blank import BlankSettings
from fleetsim.learning.partition.iid import IidSettings
from fleetsim.learning.training import trainer_choice
from fleetsim.scenario.samples import too_few_samples
from fleetsim.scenario.settings import BufferedServerSettings, Scenario, SynchronousServerSettings
from fleetsim.schema.faults import Fault
from fleetsim.selectors import requirements


def contradictions(scenario: Scenario) -> list[Fault]:
    """Return the contradictions, by key."""
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
        says = "asks for min_free_ram_gib, which is unknown; set fleet.memory.kind = 'share'"
        found.append((("server", "eligibility"), says))
    task = scenario.task
    if isinstance(task.dataset, BlankSettings) and task.partition != IidSettings():
        says = "the blank data set has no samples to split; leave it out"
        found.append((("task", "partition"), says))
    found.extend(too_few_samples(scenario))
    stop = scenario.stop
    if stop.accuracy is None and not stop.ends_without_accuracy:
        if "time_s" not in stop.model_fields_set:
            says = "does not say when the run ends; set rounds, accuracy, time_s or energy_j"
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


def without_wifi(scenario: Scenario, beside: Path | None, files: HardwareFiles) -> list[Fault]:
    """Return a fault if eligibility asks for unmetered networks and no client is ever on one."""
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


def never_ends(scenario: Scenario) -> str | None:
    """Return why a run without training has no end, and the way out; None if it ends."""
    stop = scenario.stop
    if stop.accuracy is None or stop.ends_without_accuracy:
        return None
    return (
        "cannot be reached without training, and nothing else ends the run; set stop.rounds,"
        " stop.time_s or stop.energy_j"
    )
