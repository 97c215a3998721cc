"""Requests of selectors: trainings in probes ask for as much as the scenario does."""

from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import Evaluation, ProbeRequest, Purpose, Report, Work, WorkKind
from fleetsim.selectors import SelectorSettings, probing
from fleetsim.selectors.bandits.selector import QuickInitUcbSettings
from fleetsim.selectors.divfl.selector import DivFlSettings
from fleetsim.selectors.favor.settings import FavorSettings
from fleetsim.selectors.fedcor.selector import FedCorSettings
from fleetsim.selectors.fedcs.selector import FedCSSettings
from fleetsim.selectors.fedgra.selector import FedGRASettings
from fleetsim.selectors.tifl.selector import TiFLSettings
from tests.selectors.rounds import met, probed, report_of, resources_of, view_of


def trained_in_probes(settings: SelectorSettings, amount: dict[str, int]) -> set[Work]:
    """Works of the trainings that a selector asks for before round 11, answered as asked."""

    def answer(request: ProbeRequest, stage: int) -> Report:
        report = report_of(request.client, loss=1.0 + request.client, purpose=Purpose.PROBE)
        vector = np.full(3, request.client, dtype=np.float32)
        return report._replace(vector=vector, accuracy=0.5)

    planned: dict[str, Any] = {"planned_rounds": 20, "validation": Evaluation(0.5, 1.0)}
    fleet, selector = met(settings, (10,) * 4, **planned, **amount)
    stages, _ = probed(selector, fleet, answer, round_=11)
    works = [request.work for requests in stages for request in requests]
    return {work for work in works if work.kind is WorkKind.TRAIN}


@pytest.mark.parametrize("amount", [{"epochs": 3}, {"epochs": 0, "steps": 20}])
@pytest.mark.parametrize(
    ("settings", "fixed"),
    [
        (TiFLSettings(), None),
        (FedCorSettings(warm_up_rounds=1), None),
        (DivFlSettings(vectors="update"), None),
        (QuickInitUcbSettings(cold_start="reset"), None),
        (FedGRASettings(), {"epochs": 1}),
        (FavorSettings(), {"epochs": 1}),
    ],
)
def test_probes_train_as_much_as_the_scenario_asks_for_or_an_epoch(settings, fixed, amount):
    assert trained_in_probes(settings, amount) == {Work(WorkKind.TRAIN, **fixed or amount)}


@pytest.mark.parametrize(("steps", "packed"), [(2, 2), (3, 1)])
def test_fedcs_counts_the_samples_of_all_steps(steps, packed):
    """Ten a second. Of 15 samples in batches of 10 two steps are an epoch: 1.5 s; three: 2.5 s.

    Models take 1 s each way, so two clients end after 1 + u + 2 seconds, one after 1 + u + 1.
    """
    settings = FedCSSettings(round_s=5.0)
    fleet, selector = met(settings, (15, 15), epochs=0, steps=steps, payload_byte=125_000)
    resources = resources_of(samples_per_s=10.0)
    answers = [
        report_of(client, purpose=Purpose.PROBE)._replace(resources=resources) for client in (0, 1)
    ]

    assert selector.select(view_of(fleet, reports=answers)).size == packed


def test_a_request_for_resources_is_work_for_the_link_alone():
    (request,) = probing.resource_requests(np.array([4]), 24)

    assert (request.client, request.work.kind, request.upload_byte) == (4, WorkKind.NONE, 24)
    assert not request.needs_model
    assert not request.uploads_vector
    assert request.asks_resources
