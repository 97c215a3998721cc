"""Selectors that learn from records: FedGCS, one fit for each fleet of a study.

A record is one round: the selected clients, the accuracy on the samples kept for selectors after
it, the seconds from the first dispatch to the last end, and the joules of all its tasks. Or it is a
whole run of one fixed set. Probes are of the selector that collected the record, not of the set:
they are part of the cost of collecting alone.
"""

import json
import operator
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Literal

import numpy as np

from fleetsim.contracts import Purpose
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.record.saved_run import Run
from fleetsim.schema.faults import check
from fleetsim.schema.overrides import Override, apply
from fleetsim.schema.strict_yaml import Document
from fleetsim.selector_training.weight_writing import write_weights
from fleetsim.selectors.fedgcs.records import SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from fleetsim.settings import Settings
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import Study

Form = Literal["round", "run"]
"""Form of a record: one round, or a whole run of a fixed set."""


@dataclass(frozen=True, slots=True)
class Collected:
    """Records of one fleet, and what it cost to collect them."""

    records: SelectionRecords
    num_by_arm: Mapping[str, int]
    virtual_s: float
    energy_j: float
    """Joules of all runs, probes included."""
    host_s: float


def collected(
    study: Study,
    store: RunStore,
    *,
    form: Form = "round",
    per_arm: int | None = None,
    arms: Sequence[str] = (),
    on_run: Callable[[int, int], None] = lambda done, planned: None,
) -> dict[str, Collected]:
    """Return the records of a study, whose runs must be complete, by the hash of the clients.

    There are `per_arm` of each arm and fleet, or all that there are, from runs of `arms`, or all.
    """
    study.require_arms(arms)
    asked = [planned for planned in study.runs if planned.arm in (arms or study.arms)]
    parts: dict[str, list[tuple[PlannedRun, Run, SelectionRecords]]] = {}
    for number, planned in enumerate(asked, start=1):
        run = store.open(planned)
        if run is None:
            raise ScenarioError(
                f"study {quoted(study.settings.name)}: {planned.name} is not complete; run"
                f" `fleetsim study run {study.source}` first"
            )
        records = _of_rounds(run) if form == "round" else _of_run(run)
        parts.setdefault(planned.scenario.clients_hash, []).append((planned, run, records))
        on_run(number, len(asked))
    return {clients: _joined(of_fleet, per_arm) for clients, of_fleet in parts.items()}


def _joined(
    parts: list[tuple[PlannedRun, Run, SelectionRecords]], per_arm: int | None
) -> Collected:
    by_arm: dict[str, SelectionRecords] = {}
    for planned, _, records in parts:
        arm = by_arm.get(planned.arm)
        by_arm[planned.arm] = records if arm is None else arm + records
    if per_arm is not None:
        for name, records in by_arm.items():
            if len(records) < per_arm:
                raise ScenarioError(
                    f"arm {quoted(name)} has {len(records)} records, {per_arm} are asked for;"
                    " add seeds or rounds to the study"
                )
            by_arm[name] = records.chosen(np.arange(per_arm))
    return Collected(
        records=reduce(operator.add, by_arm.values()),
        num_by_arm={arm: len(records) for arm, records in by_arm.items()},
        virtual_s=sum(run.manifest.virtual_s for _, run, _ in parts),
        energy_j=sum(float(run.rounds["energy_total_j"].iloc[-1]) for _, run, _ in parts),
        host_s=sum(run.manifest.host_s for _, run, _ in parts),
    )


def _of_rounds(run: Run) -> SelectionRecords:
    """Return a record of each round in which clients were selected."""
    _require_validation(run)
    if not run.is_synchronous:
        raise ScenarioError(
            f"{run.folder}: a buffered server has no rounds with one selection; collect records"
            " with server.mode: synchronous, or use --form run"
        )
    rounds, tasks = run.rounds, run.recorded_tasks
    tasks = tasks[tasks["purpose"] == Purpose.TRAIN.value]
    energy_j = tasks.filter(regex=r"^energy_\w+_j$").fillna(0.0).sum(axis=1)
    by_round = tasks.assign(energy_j=energy_j).groupby("round")
    costs = by_round.agg(
        began_s=("dispatched_at_s", "min"),
        ended_s=("finished_at_s", "max"),
        energy_j=("energy_j", "sum"),
    )
    selections = by_round["client"].agg(list)
    accuracy = rounds.set_index("round")["validation_accuracy"].reindex(costs.index)
    return SelectionRecords.of(
        selections.tolist(),
        accuracy.to_numpy(),
        (costs["ended_s"] - costs["began_s"]).to_numpy(),
        costs["energy_j"].to_numpy(),
    )


def _of_run(run: Run) -> SelectionRecords:
    _require_validation(run)
    kind, clients = (run.scenario["server"]["selector"].get(key) for key in ("kind", "clients"))
    if kind != "fixed" or not clients:
        raise ScenarioError(
            f"{run.folder}: a record of a whole run needs the same clients in every round; set"
            " server.selector: {kind: fixed, clients: [...]}, or use --form round"
        )
    last = run.rounds.iloc[-1]
    return SelectionRecords.of(
        [clients],
        [float(last["validation_accuracy"])],
        [run.manifest.virtual_s],
        [float(last["energy_total_j"])],
    )


def _require_validation(run: Run) -> None:
    if "validation_accuracy" not in run.rounds or run.rounds["validation_accuracy"].isna().any():
        raise ScenarioError(
            f"{run.folder}: has no accuracy on samples that the server keeps for selectors; train,"
            " with evaluate.validation_fraction above 0, such as 0.1"
        )


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


def train_from_records(
    fleets: dict[str, Collected],
    settings: FedGCSSettings,
    *,
    num_clients: int,
    seed: int,
    out: Path,
    command: str,
    on_progress: Callable[[int, int, int], None] = lambda fleet, done, planned: None,
    on_fleet: Callable[[int, str, Mapping[str, str]], None] = lambda fleet, clients, facts: None,
) -> None:
    """Fit FedGCS to the records of every fleet, and write the weights of each when it is ready.

    `fleets` are records by the hash of their clients, of `num_clients` each. `on_progress` gets the
    number of the fleet from 1, and epochs done and planned; `on_fleet` the hash of the clients and
    the facts of a fit.
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
        on_fleet(number, clients, facts)
