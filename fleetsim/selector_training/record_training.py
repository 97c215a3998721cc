"""Selectors that learn from records: FedGCS, one fit for each fleet of a study."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.schema.faults import check
from fleetsim.schema.overrides import Override, apply
from fleetsim.schema.strict_yaml import Document
from fleetsim.selector_training.study_records import Collected
from fleetsim.selector_training.weight_writing import write_weights
from fleetsim.selectors.fedgcs.selector import FedGCSSettings
from fleetsim.settings import Settings

KIND = "fedgcs"


class _Server(Settings):
    selector: FedGCSSettings


class _Scenario(Settings):
    """Part of a scenario: how FedGCS is fitted."""

    server: _Server


def settings_of(changes: Iterable[str | Override]) -> FedGCSSettings:
    """Return the settings of FedGCS with overrides, `server.selector.KEY=VALUE` each."""
    default = Document({"server": {"selector": {"kind": KIND}}}, "--set")
    return check(_Scenario, apply(default, changes)).server.selector


@dataclass(frozen=True, slots=True)
class FleetFit:
    """Fit to the records of one fleet."""

    clients: str
    num_records: int
    facts: dict[str, str]


def train_from_records(
    fleets: dict[str, Collected],
    settings: FedGCSSettings,
    *,
    num_clients: int,
    seed: int,
    out: Path,
    command: str,
    on_progress: Callable[[int, int, int], None] = lambda fleet, done, planned: None,
    on_fleet: Callable[[int, FleetFit], None] = lambda fleet, fit: None,
) -> None:
    """Fit FedGCS to the records of every fleet, and write the weights of each when it is ready.

    `fleets` are records by the hash of their clients, of `num_clients` each. `on_progress` gets the
    number of the fleet from 1, and epochs done and planned.
    """
    from fleetsim.selectors.fedgcs import fitting  # noqa: PLC0415  (loads torch)

    for number, (clients, collected) in enumerate(fleets.items(), start=1):
        began_s = time.perf_counter()
        try:
            fitted = fitting.fit(
                collected.records,
                num_clients=num_clients,
                settings=settings,
                seed=seed,
                has_control=True,
                on_progress=partial(on_progress, number),
            )
        except ValueError as fault:
            raise ScenarioError(
                f"records of the fleet {quoted(clients[:8])}: {fault}; collect more"
            ) from fault
        facts = {
            "command": command,
            "seed": str(seed),
            "records": json.dumps(dict(collected.num_by_arm)),
            "collecting_virtual_s": repr(collected.virtual_s),
            "collecting_energy_j": repr(collected.energy_j),
            "collecting_host_s": repr(collected.host_s),
            "training_host_s": repr(time.perf_counter() - began_s),
            **{f"fit_{key}": repr(value) for key, value in fitted.facts.items()},
        }
        write_weights(out, KIND, {clients: fitted.weights}, facts)
        on_fleet(number, FleetFit(clients, len(collected.records), facts))
