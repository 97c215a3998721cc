"""Candidates without a report."""

import numpy as np

from fleetsim.contracts import Outcome, WorkKind
from fleetsim.selectors import probing
from tests.selectors.rounds import fleet_of, report_of, view_of


def test_of_whom_anything_was_heard_is_not_asked_again_even_if_it_failed():
    reports = [report_of(3, loss=0.5), report_of(1, outcome=Outcome.OFFLINE), report_of(5)]
    view = view_of(fleet_of([10] * 6), candidates=[0, 1, 3, 4], reports=reports)

    assert probing.unasked(view).tolist() == [0, 4]


def test_a_request_for_resources_is_work_for_the_link_alone():
    (request,) = probing.resource_requests(np.array([4]), 24)

    assert (request.client, request.work.kind, request.upload_byte) == (4, WorkKind.NONE, 24)
    assert not request.needs_model
    assert not request.uploads_vector
    assert request.asks_resources
