"""Warnings about a scenario that can run but may not be what its user meant."""

from fleetsim.contracts import ModelCost
from fleetsim.fleet.devices.assignment import load_devices
from fleetsim.fleet.population import places_m
from fleetsim.scenario.settings import Scenario
from fleetsim.selectors.bp_ucb.selector import BpUcbSettings


def reproductions(scenario: Scenario) -> list[tuple[str, str]]:
    """Return devices of a loaded scenario that are not physical: name in tables, and reason."""
    profiles = [
        profile
        for name in scenario.fleet.devices
        for profile in load_devices(name, files=scenario.files)
    ]
    return [(p.name, p.reproduction) for p in profiles if p.reproduction is not None]


def transformer_warning(scenario: Scenario, cost: ModelCost | None = None) -> str | None:
    """Return the warning about a transformer on phones; `cost` is of a user's own network."""
    described = scenario.task.model if cost is None else cost
    names = [
        name
        for name in scenario.fleet.devices
        if any(
            profile.kind == "phone" and "compute.phi.gemm" in profile.inferred
            for profile in load_devices(name, files=scenario.files)
        )
    ]
    if not described.is_transformer or not names:
        return None
    return (
        f"fleet.devices: {', '.join(names)}: no rate of a transformer's matrix products"
        " (compute.phi.gemm) was measured, and seconds and joules are probably too few: the one"
        " measured phone took 12.6 times as long (Gemma 3 270M with LoRA on a Snapdragon 778G;"
        " EdgeFlowerTune, arXiv 2605.08636)"
    )


def scenario_warnings(scenario: Scenario, *, train: bool = True) -> list[str]:
    """Return warnings about a loaded scenario that will train or not, one line each."""
    lines = [
        f"fleet.devices: {name} is a reproduction, not physical: {why}"
        for name, why in reproductions(scenario)
    ]
    lines.extend(scenario._inert)
    if scenario.task.can_train and not train and scenario.stop.accuracy is not None:
        lines.append(
            f"stop.accuracy = {scenario.stop.accuracy:g}: has no effect: a run without training has"
            " no accuracy; another rule ends it"
        )
    selector, fleet, seed = scenario.server.selector, scenario.fleet, scenario.seed
    if isinstance(selector, BpUcbSettings):
        position_m = places_m(fleet.channel, seed=scenario.clients_seed, size=fleet.size)
        message = selector.warning(position_m, num_clients=fleet.size, seed=seed)
        if message is not None:
            lines.append(f"server.selector: {message}")
    slow = transformer_warning(scenario)
    return lines if slow is None else [*lines, slow]
