"""Gradients on a line: clients 0 to 6 at 0, 2, 3, 4, 10, 11, 13.

The medoid is the median, 4 (client 3): distances 4 2 1 0 6 7 9. Then 11 (client 5) leaves the sum
4 + 2 + 1 + 0 + 1 + 0 + 2 = 10; 10 would leave 11, 13 would leave 12, 2 would leave 25.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fleetsim.contracts import Cohort, Outcome, Purpose, WorkKind
from fleetsim.selectors.divfl import DivFlSettings
from tests.selectors.rounds import met, outcome_of, probed, report_of, view_of

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


def play_weights(*arguments, **options):
    """As `play`; returns who was chosen and the weight of each."""
    _, cohort = play(*arguments, **options)
    assert not cohort.are_shares
    return cohort.clients.tolist(), cohort.weights.tolist()


ALL = dict(enumerate(PLACES))


def test_a_request_is_for_the_gradient_of_all_samples_and_brings_it_back():
    fleet, selector = ready()
    request = selector.probe(view_of(fleet))[0]

    assert request.work.kind is WorkKind.GRADIENT
    assert request.work.num_samples is None
    assert request.needs_model
    assert request.uploads_vector


def test_all_clients_are_asked_once_and_then_those_chosen_whose_answer_counts_later():
    fleet, selector = ready()

    assert play(fleet, selector, 1, ALL) == ([[0, 1, 2, 3, 4, 5, 6]], [3, 5])
    # Client 3 moves to 100, which the choice of this round does not know yet.
    assert play(fleet, selector, 2, {3: 100.0, 5: 11.0}) == ([[3, 5]], [3, 5])
    # The median of 0 2 3 10 11 13 100 is 10 (4): 10 + 8 + 7 + 90 + 0 + 1 + 3; 100 saves 90.
    assert play(fleet, selector, 3, {4: 10.0, 3: 100.0}) == ([[4, 3]], [4, 3])


def test_ideal_asks_all_clients_and_chooses_by_what_it_hears():
    fleet, selector = ready(refresh="ideal")
    play(fleet, selector, 1, ALL)

    assert play(fleet, selector, 2, ALL | {3: 100.0}) == ([[0, 1, 2, 3, 4, 5, 6]], [4, 3])


def test_who_is_not_there_is_represented_all_the_same():
    # Of 0, 2, 3 the last is nearest to all seven: 3 + 1 + 0 + 1 + 7 + 8 + 10 = 30 against 32 of
    # the second, who is the medoid of the three.
    fleet, selector = ready(cohort=1)
    play(fleet, selector, 1, ALL)

    assert play(fleet, selector, 2, ALL, candidates=[0, 1, 2]) == ([[2]], [2])


def test_a_newcomer_is_asked_first_and_one_without_an_answer_comes_last():
    fleet, selector = ready(cohort=3)
    others = [0, 1, 2, 3, 4]
    asked, _ = play(fleet, selector, 1, {0: 0.0, 1: 2.0}, candidates=others)
    assert asked[0] == others

    # 2, 3 and 4 failed and are asked again, with the newcomers; only 0, 1 and 5 are known then.
    asked, chosen = play(fleet, selector, 2, {5: 11.0, 0: 0.0, 1: 2.0})
    assert asked[0] == [2, 3, 4, 5, 6]
    assert sorted(chosen) == [0, 1, 5]
    asked, chosen = play(fleet, selector, 3, {1: 2.0}, candidates=[1, 4, 6])
    assert asked[0] == [4, 6]
    assert chosen[0] == 1
    assert sorted(chosen) == [1, 4, 6]


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


def test_updates_are_asked_for_once_and_then_taken_from_training():
    fleet, selector = ready(vectors="update")
    request = selector.probe(view_of(fleet))[0]
    assert (request.work.kind, request.work.epochs) == (WorkKind.TRAIN, fleet.epochs)
    assert play(fleet, selector, 1, ALL) == ([[0, 1, 2, 3, 4, 5, 6]], [3, 5])

    # Client 3 brings back 107 of a model at 7: an update of 100; 5 fails.
    reports = [
        report_of(3, loss=1.0)._replace(vector=at(107.0), base=at(7.0)),
        report_of(5, outcome=Outcome.LATE),
    ]
    selector.observe(outcome_of(1, reports))
    assert selector.state()["vectors"][[3, 5], 0].tolist() == [100.0, 11.0]
    assert play(fleet, selector, 2, {}) == ([], [4, 3])


def test_gamma_is_how_many_clients_each_of_the_chosen_stands_for():
    # 0, 2, 3, 4 are nearest to 4 (client 3), 10, 11, 13 to 11 (client 5).
    fleet, selector = ready(weights="gamma")
    assert play_weights(fleet, selector, 1, ALL) == ([3, 5], [4.0, 3.0])

    # In round 2 client 3 moves to 12, which its weight does not know before round 3. Then the
    # median of 0 2 3 10 11 12 13 is 10 (client 4): 10 8 7 0 1 2 3. Client 1, at 2, saves
    # 10 - 2 + 8 + 7 - 1 = 22 of 31, more than 3 (21) or 0 (20): 0, 2, 3 are its own.
    assert play_weights(fleet, selector, 2, {3: 12.0, 5: 11.0}) == ([3, 5], [4.0, 3.0])
    assert play_weights(fleet, selector, 3, {4: 10.0, 1: 2.0}) == ([4, 1], [4.0, 3.0])


def test_gamma_of_those_left_takes_over_the_clients_of_who_left():
    fleet, selector = ready(weights="gamma")
    play_weights(fleet, selector, 1, ALL)

    assert play_weights(fleet, selector, 2, ALL, left=[3]) == ([5], [7.0])


def test_who_is_chosen_stands_for_itself_at_least():
    # Two at 0, two at 8: 0 stands for 0 and 1 until 1 is chosen too, for itself.
    fleet, selector = ready(cohort=4, weights="gamma", ties="lowest_id")
    there = [0, 1, 2, 3, 6]
    answers = {0: 0.0, 1: 0.0, 2: 8.0, 3: 8.0}
    chosen, gamma = play_weights(fleet, selector, 1, answers, candidates=there)
    assert dict(zip(chosen, gamma, strict=True)) == {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}

    # A fifth one is wanted: client 6, whose gradient is not known, represents itself alone.
    fleet, selector = ready(cohort=3, weights="gamma", ties="lowest_id")
    chosen, gamma = play_weights(fleet, selector, 1, {0: 0.0, 1: 0.0}, candidates=[0, 1, 6])
    assert dict(zip(chosen, gamma, strict=True)) == {0: 1.0, 1: 1.0, 6: 1.0}
    chosen, gamma = play_weights(fleet, selector, 2, {0: 0.0}, candidates=[0, 6])
    assert dict(zip(chosen, gamma, strict=True)) == {0: 2.0, 6: 1.0}


def test_a_sample_as_large_as_the_fleet_finds_the_same():
    fleet, selector = ready(search="stochastic", sample_fraction=1.0)

    assert play(fleet, selector, 1, ALL)[1] == [3, 5]


def test_a_small_sample_finds_others():
    # Samples of two: the first choice is the better of two random clients, so not always 3.
    chosen = set()
    for round_ in range(1, 20):
        fleet, selector = ready(search="stochastic", sample_fraction=0.0)
        chosen.add(play(fleet, selector, round_, ALL)[1][0])

    assert len(chosen) > 2


def test_the_distances_kept_are_those_of_the_gradients_kept():
    fleet, selector = ready(metric="squared_l2")
    play(fleet, selector, 1, ALL)
    play(fleet, selector, 2, {3: 100.0, 5: -1.0, 4: 8.0})
    state = selector.state()
    gaps = np.subtract.outer(state["vectors"][:, 0], state["vectors"][:, 0])

    np.testing.assert_allclose(state["distance"], gaps.astype(np.float64) ** 2)


def test_of_candidates_that_serve_equally_well_the_lowest_id_is_chosen_as_by_the_authors():
    alike = dict.fromkeys(range(len(PLACES)), 5.0)
    fleet, selector = ready(cohort=3)

    assert play(fleet, selector, 1, alike)[1] == [0, 1, 2]
    fleet, selector = ready(cohort=3)
    assert play(fleet, selector, 1, alike, candidates=[2, 4, 5, 6])[1] == [2, 4, 5]


def test_those_without_a_gradient_are_chosen_at_random_whatever_the_rule_for_ties():
    fleet, selector = ready(cohort=2)
    silent = dict.fromkeys(range(len(PLACES)))

    chosen = {tuple(play(fleet, selector, round_, silent)[1]) for round_ in range(1, 30)}
    assert {client for pair in chosen for client in pair} == set(range(len(PLACES)))
