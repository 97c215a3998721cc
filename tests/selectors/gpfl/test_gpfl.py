"""GPFL on three clients whose vectors can be projected by hand; the model is zero, eta is 0.1."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import Evaluation, Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.gpfl.equations import (
    client_vector,
    confidence_bound,
    direction,
    exploration_weight,
    first_scores,
    gradient_projection,
    normalised,
    num_plays,
    reward_factor,
    rewards,
    with_rewards,
)
from fleetsim.selectors.gpfl.selector import GPFLSettings
from fleetsim.selectors.tie_breaking import best
from tests.selectors.rounds import met, outcome_of, report_of, view_of

FIRST = {0: [3.0, 0.0, 0.0], 1: [0.0, 3.0, 0.0], 2: [3.0, 3.0, 0.0]}
"""First vectors: G = (2, 2, 0), |G| = 2 sqrt(2), c = 6, 6, 12 over it: 2.1213, 2.1213, 4.2426."""


def ready(*, planned=10, is_validated=True, **settings):
    validation = Evaluation(0.5, 1.0) if is_validated else None
    more = {"cohort": 1, "planned_rounds": planned, "validation": validation}
    return met(GPFLSettings(**settings), (10, 20, 30), **more)


def initial(client, vector=None):
    report = report_of(client, purpose=Purpose.PROBE)
    return report._replace(vector=np.array(vector or FIRST[client], dtype=np.float32))


def trained(client, gradient, outcome=Outcome.DELIVERED):
    """A client whose steps' gradients add up to `gradient`, from a model of zeros."""
    report = report_of(client, loss=1.0, outcome=outcome)
    base = np.zeros(3, dtype=np.float32)
    if outcome is not Outcome.DELIVERED:
        return report._replace(base=base)
    vector = base - np.float32(0.1) * np.array(gradient, dtype=np.float32)
    return report._replace(base=base, vector=vector)


def choose(fleet, selector, round_, answers=None):
    """The choice of a round; all asked clients answer with their initial vectors."""
    view = view_of(fleet, round_=round_, wanted=3)
    asked = [request.client for request in selector.probe(view)]
    if answers is None:
        answers = [initial(client) for client in asked]
    view = dataclasses.replace(view, reports=tuple(answers))
    return asked, selector.select(view).tolist()


def observe(selector, round_, reports):
    outcome = outcome_of(round_, reports)
    selector.observe(dataclasses.replace(outcome, validation=Evaluation(0.6, 0.9)))


def test_a_vector_that_is_not_finite_is_none():
    fleet, selector = ready()
    answers = [initial(0), initial(1, [math.nan, 0.0, 0.0])]
    _, chosen = choose(fleet, selector, 1, answers=answers)
    assert set(chosen[:2]) == {1, 2}
    assert selector.state()["direction"].tolist() == FIRST[0]

    observe(selector, 1, [trained(1, [math.inf, 0.0, 0.0])])
    state = selector.state()
    assert math.isnan(state["projection"][1])
    assert state["num_pulls"].tolist() == [1, 0, 0]


def test_the_number_of_rounds_is_asked_for_by_name():
    with pytest.raises(ScenarioError, match=r"set stop\.rounds"):
        ready(planned=None)


def test_who_delivered_is_asked_for_the_gradient_at_the_model_that_it_holds():
    fleet, selector = ready(vector="last_gradient", initial_batch=15)
    choose(fleet, selector, 1)
    late = trained(1, [1.0, 0.0, 0.0], outcome=Outcome.LATE)
    observe(selector, 1, [trained(2, [1.0, 2.0, 0.0]), late])
    [asked] = selector.probe(view_of(fleet, round_=2))

    assert (asked.client, asked.needs_model, asked.uploads_vector) == (2, False, True)
    assert (asked.work.kind, asked.work.num_samples) == (WorkKind.GRADIENT, 15)
    # A step of eta 0.1 from zeros.
    assert asked.parameters.tolist() == pytest.approx([-0.1, -0.2, 0.0])
    assert list(selector.probe(view_of(fleet, round_=2, candidates=[0, 1]))) == []


VECTORS = [np.array([3.0, 4.0]), np.array([0.0, 5.0]), np.array([-3.0, 0.0])]
PROJECTIONS = st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=12).map(np.array)


def test_the_vector_is_the_sum_of_the_local_gradients():
    # Two steps of eta = .5 down gradients (1, -2) and (3, 0): w - .5 (4, -2).
    base = np.array([1.0, 1.0], dtype=np.float32)
    local = np.array([-1.0, 2.0], dtype=np.float32)

    assert client_vector(base, local, 0.5).tolist() == [4.0, -2.0]
    assert client_vector(base, local, 0.5, "delta").tolist() == [2.0, -1.0]


def test_the_direction_is_the_mean_and_the_projection_keeps_the_length_of_the_vector():
    assert direction(VECTORS).tolist() == [0.0, 3.0]
    # G = (0, 3): 4 * 3 / 3, 5 * 3 / 3, 0. A cosine would be 4/5, 1, 0.
    assert gradient_projection(VECTORS, np.array([0.0, 3.0])).tolist() == [4.0, 5.0, 0.0]
    # Half as long and turned about: half of it, negative.
    assert gradient_projection([np.array([0.0, -2.5])], np.array([0.0, 3.0])).tolist() == [-2.5]


def test_nothing_points_along_a_direction_of_zero():
    assert gradient_projection(VECTORS, np.zeros(2)).tolist() == [0.0, 0.0, 0.0]
    assert gradient_projection([], np.ones(2)).tolist() == []


def test_single_precision_vectors_are_multiplied_in_double_precision():
    # (2^24 + 1) / sqrt(2) needs more than the 24 bits of a float32.
    vector = np.array([2.0**24, 1.0], dtype=np.float32)

    assert gradient_projection([vector], np.ones(2))[0] == pytest.approx(
        (2.0**24 + 1.0) / math.sqrt(2.0), rel=1e-14
    )


def test_one_client_has_the_whole_share_and_strangers_none():
    assert normalised(np.array([-7.0])).tolist() == [1.0]
    shares = normalised(np.array([np.nan, 3.0, 3.0]))
    assert math.isnan(shares[0])
    assert shares[1:].tolist() == [0.5, 0.5]
    assert np.isnan(normalised(np.full(2, np.nan))).all()
    assert normalised(np.empty(0)).tolist() == []


@given(projections=PROJECTIONS, shift=st.floats(-1e3, 1e3), data=st.data())
def test_shares_sum_to_one_ignore_a_shift_and_follow_their_clients(projections, shift, data):
    order = data.draw(st.permutations(range(projections.size)))
    shares = normalised(projections)

    assert shares.sum() == pytest.approx(1.0)
    assert normalised(projections + shift) == pytest.approx(shares, rel=1e-9)
    assert normalised(projections[order]) == pytest.approx(shares[order], rel=1e-12)


def test_the_factor_as_printed():
    # 2 e^.1 = 2.2103418; equal accuracies: e^(1.2 - 1.0) = 1.2214028.
    assert reward_factor(0.6, 0.5, 1.2, 1.0) == pytest.approx(2.2103418)
    assert reward_factor(0.5, 0.5, 1.2, 1.0) == pytest.approx(1.2214028)
    # A fall of ten points still amplifies: 2 e^-.1 = 1.8096748.
    assert reward_factor(0.4, 0.5, 1.0, 1.0) == pytest.approx(1.8096748)


def test_a_stranger_goes_before_all_clients():
    bound = confidence_bound(
        np.array([9.0, 0.0, 0.0]), np.array([1, 0, 3]), np.array([1, 1, 0]), 0.0, 2
    )

    assert bound.tolist() == [9.0, math.inf, math.inf]
    assert first_scores(np.array([4.0, np.nan, -1.0])).tolist() == [4.0, math.inf, -1.0]


def test_one_round_from_vectors_to_the_next_cohort():
    # Three clients sent (3, 4), (0, 5), (-3, 0): c = 4, 5, 0, so 1 goes first.
    c = gradient_projection(VECTORS, direction(VECTORS))
    assert best(first_scores(c), 1, np.zeros(3)).tolist() == [1]
    # Round 1 of 10: client 1 delivers (0, 1), so c_1 = 1; c = (4, 1, 0), e^4 + e + 1 = 58.31643;
    # shares .9362396, .0466126, .0171478. Accuracy rises by .1: client 1 gets .1030298.
    c[1] = gradient_projection([np.array([0.0, 1.0])], direction(VECTORS))[0]
    took_part = np.array([False, True, False])
    mu = rewards(normalised(c), took_part, reward_factor(0.2, 0.1, 2.0, 2.3))
    sums, nums = with_rewards(np.zeros(3), np.zeros(3, dtype=np.int64), mu, took_part)
    pulls = np.array([1, 2, 1])
    # alpha = 1/10; sqrt(2 ln 4) = 1.6651092, over sqrt 2: 1.1774100.
    bound = confidence_bound(sums, nums, pulls, exploration_weight(1, 10), num_plays(pulls, 1))

    assert bound == pytest.approx([1.1027505, 0.2207708, 0.1836587], abs=1e-6)
