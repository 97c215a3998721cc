"""Candidates without a report."""

import numpy as np

from fleetsim.contracts import WorkKind
from fleetsim.selectors import probing


def test_a_request_for_resources_is_work_for_the_link_alone():
    (request,) = probing.resource_requests(np.array([4]), 24)

    assert (request.client, request.work.kind, request.upload_byte) == (4, WorkKind.NONE, 24)
    assert not request.needs_model
    assert not request.uploads_vector
    assert request.asks_resources
