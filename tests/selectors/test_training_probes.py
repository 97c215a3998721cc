"""Selectors that let clients train in probes ask for as much as the scenario does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fleetsim.contracts import (
    Evaluation,
    FleetView,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    Selector,
    Work,
    WorkKind,
)
from fleetsim.selectors.divfl import DivFlSettings
from fleetsim.selectors.fedcor import FedCorSettings
from fleetsim.selectors.fedcs import FedCSSettings
from fleetsim.selectors.fedgra import FedGRASettings
from fleetsim.selectors.quick_init_ucb import QuickInitUcbSettings
from fleetsim.selectors.tifl import TiFLSettings

AMOUNTS = [{"epochs": 3}, {"epochs": 0, "steps": 20}]


@pytest.fixture
def trained_in_probes(fleet_of, view_of, report_of):
    """Works of the trainings that a selector asks for before round 11, answered as asked."""

    def play(selector: Selector, amount: dict[str, int]) -> set[Work]:
        fleet: FleetView = dataclasses.replace(
            fleet_of((10,) * 4), planned_rounds=20, validation=Evaluation(0.5, 1.0), **amount
        )
        assert list(selector.setup(fleet)) == []
        works: set[Work] = set()
        reports: list[Report] = []
        for stage in range(6):
            requests = list(
                selector.probe(view_of(fleet, round_=11, stage=stage, reports=tuple(reports)))
            )
            works |= {r.work for r in requests if r.work.kind is WorkKind.TRAIN}
            reports += [answer(request) for request in requests]
            if not requests:
                break
        return works

    def answer(request: ProbeRequest):
        report = report_of(request.client, loss=1.0 + request.client, purpose=Purpose.PROBE)
        vector = np.full(3, request.client, dtype=np.float32)
        return report._replace(vector=vector, accuracy=0.5)

    return play


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize(
    "settings",
    [
        TiFLSettings(),
        FedCorSettings(warm_up_rounds=1),
        DivFlSettings(vectors="update"),
        QuickInitUcbSettings(cold_start="reset"),
    ],
    ids=lambda settings: settings.kind,
)
def test_probes_train_as_much_as_the_scenario_asks_for(settings, amount, trained_in_probes):
    works = trained_in_probes(settings.build(), amount)

    assert works == {Work(WorkKind.TRAIN, **amount)}


@pytest.mark.parametrize("amount", AMOUNTS)
def test_fedgra_s_probe_is_one_epoch_whatever_the_scenario_asks_for(amount, trained_in_probes):
    works = trained_in_probes(FedGRASettings().build(), amount)

    assert works == {Work(WorkKind.TRAIN, epochs=1)}


@pytest.mark.parametrize(("steps", "packed"), [(2, 2), (3, 1)])
def test_fedcs_counts_the_samples_of_all_steps(steps, packed, fleet_of, view_of, report_of):
    """Ten a second. Of 15 samples in batches of 10 two steps are an epoch: 1.5 s; three: 2.5 s.

    Models take 1 s each way, so two clients end after 1 + u + 2 seconds, one after 1 + u + 1.
    """
    fleet = dataclasses.replace(
        fleet_of((15, 15), cohort=2), epochs=0, steps=steps, payload_byte=125_000
    )
    selector = FedCSSettings(round_s=5.0).build()
    selector.setup(fleet)
    told = Resources(
        flop_per_s=1e9,
        ram_byte=1,
        load_fraction=0.0,
        is_charging=True,
        is_unmetered=True,
        battery_fraction=None,
        samples_per_s=10.0,
        down_bit_per_s=1e6,
        up_bit_per_s=1e6,
    )
    answers = [
        report_of(client, purpose=Purpose.PROBE)._replace(resources=told) for client in (0, 1)
    ]

    assert selector.select(view_of(fleet, reports=answers)).size == packed
