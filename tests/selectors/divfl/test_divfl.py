"""Gradients on a line: clients 0 to 6 at 0, 2, 3, 4, 10, 11, 13.

The medoid is the median, 4 (client 3): distances 4 2 1 0 6 7 9. Then 11 (client 5) leaves the sum
4 + 2 + 1 + 0 + 1 + 0 + 2 = 10; 10 would leave 11, 13 would leave 12, 2 would leave 25.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from fleetsim.contracts import Cohort, Purpose, WorkKind
from fleetsim.selectors.divfl.selector import DivFlSettings
from tests.selectors.rounds import met, probed, report_of, view_of

PLACES = (0.0, 2.0, 3.0, 4.0, 10.0, 11.0, 13.0)


def at(place: float) -> np.ndarray:
    return np.array([place, 0.0, 0.0], dtype=np.float32)


def ready(*, cohort=2, **settings):
    return met(DivFlSettings(**settings), (10,) * len(PLACES), cohort=cohort)


def play(fleet, selector, round_, places, *, candidates=None, left=()):
    """Plays the probes and the choice of a round; returns who was asked, by stage, and chosen."""

    def answer(request, stage):
        place = places.get(request.client)
        report = report_of(request.client, loss=1.0, purpose=Purpose.PROBE)
        return report._replace(vector=None if place is None else at(place))

    there = range(len(PLACES)) if candidates is None else candidates
    stages, view = probed(selector, fleet, answer, round_=round_, candidates=there)
    staying = [client for client in there if client not in left]
    chosen = selector.select(replace(view, candidates=np.array(staying, dtype=np.int64)))
    asked = [[request.client for request in requests] for requests in stages]
    return asked, chosen if isinstance(chosen, Cohort) else chosen.tolist()


ALL = dict(enumerate(PLACES))


def test_a_request_is_for_the_gradient_of_all_samples_and_brings_it_back():
    fleet, selector = ready()
    request = selector.probe(view_of(fleet))[0]

    assert request.work.kind is WorkKind.GRADIENT
    assert request.work.num_samples is None
    assert request.needs_model
    assert request.uploads_vector


@pytest.mark.parametrize("place", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_none(place):
    fleet, selector = ready()
    play(fleet, selector, 1, ALL | {3: place})

    assert selector.state()["is_known"].tolist() == [True] * 3 + [False] + [True] * 3


def test_chosen_ones_who_leave_are_out_unless_all_did():
    fleet, selector = ready()
    play(fleet, selector, 1, ALL)

    assert play(fleet, selector, 2, ALL, left=[3])[1] == [5]
    # Of 0 2 3 10 13 the third is nearest to all: 3 + 1 + 0 + 1 + 7 + 8 + 10; then 10 (client 4)
    # leaves 3 + 1 + 0 + 1 + 0 + 1 + 3 = 9, and 13 leaves 3 + 1 + 0 + 1 + 3 + 2 + 0 = 10.
    assert play(fleet, selector, 3, ALL, left=[3, 5])[1] == [2, 4]


def test_those_without_a_gradient_are_chosen_at_random_whatever_the_rule_for_ties():
    fleet, selector = ready(cohort=2)
    silent = dict.fromkeys(range(len(PLACES)))

    chosen = {tuple(play(fleet, selector, round_, silent)[1]) for round_ in range(1, 30)}
    assert {client for pair in chosen for client in pair} == set(range(len(PLACES)))
