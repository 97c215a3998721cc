import math

import numpy as np
import pytest

from fleetsim.contracts import Purpose, WorkKind
from fleetsim.selectors.divfl.selector import DivFlSettings
from tests.selectors.rounds import met, probed, report_of, view_of

SIZE = 7


def answered(places, *, round_=1):
    """A selector, and the view after its probes, to which gradients on a line were sent."""
    fleet, selector = met(DivFlSettings(), (10,) * SIZE, cohort=2)

    def answer(request, stage):
        place = places.get(request.client)
        vector = None if place is None else np.array([place, 0.0, 0.0], dtype=np.float32)
        return report_of(request.client, loss=1.0, purpose=Purpose.PROBE)._replace(vector=vector)

    return selector, probed(selector, fleet, answer, round_=round_)[1]


def test_a_request_is_for_the_gradient_of_all_samples_and_brings_it_back():
    fleet, selector = met(DivFlSettings(), (10,) * SIZE)
    request = selector.probe(view_of(fleet))[0]

    assert (request.work.kind, request.work.num_samples) == (WorkKind.GRADIENT, None)
    assert request.needs_model
    assert request.uploads_vector


@pytest.mark.parametrize("place", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_none(place):
    selector, view = answered(dict.fromkeys(range(SIZE), 1.0) | {3: place})
    selector.select(view)

    assert selector.state()["is_known"].tolist() == [True] * 3 + [False] + [True] * 3


def test_those_without_a_gradient_are_chosen_at_random_whatever_the_rule_for_ties():
    chosen = set()
    for round_ in range(1, 30):
        selector, view = answered({}, round_=round_)
        chosen.update(selector.select(view).tolist())

    assert chosen == set(range(SIZE))
