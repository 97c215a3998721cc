"""GPFL on three clients whose vectors can be projected by hand; the model is zero, eta is 0.1."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fleetsim.contracts import Evaluation, Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.gpfl import GPFLSettings
from tests.selectors.rounds import met, outcome_of, report_of, view_of

FIRST = {0: [3.0, 0.0, 0.0], 1: [0.0, 3.0, 0.0], 2: [3.0, 3.0, 0.0]}
"""First vectors: G = (2, 2, 0), |G| = 2 sqrt(2), c = 6, 6, 12 over it: 2.1213, 2.1213, 4.2426."""
C = 3.0 / math.sqrt(2.0)


def ready(num_samples=(10, 20, 30), *, cohort=1, planned=10, validation=(0.5, 1.0), **settings):
    validated = None if validation is None else Evaluation(*validation)
    more = {"cohort": cohort, "planned_rounds": planned, "validation": validated}
    return met(GPFLSettings(**settings), num_samples, **more)


def initial(client, vector=None, outcome=Outcome.DELIVERED):
    report = report_of(client, outcome=outcome, purpose=Purpose.PROBE)
    if outcome is not Outcome.DELIVERED:
        return report
    return report._replace(vector=np.array(vector or FIRST[client], dtype=np.float32))


def trained(client, gradient, outcome=Outcome.DELIVERED):
    """A client whose steps' gradients add up to `gradient`, from a model of zeros."""
    report = report_of(client, loss=1.0, outcome=outcome)
    base = np.zeros(3, dtype=np.float32)
    if outcome is not Outcome.DELIVERED:
        return report._replace(base=base)
    vector = base - np.float32(0.1) * np.array(gradient, dtype=np.float32)
    return report._replace(base=base, vector=vector)


def choose(fleet, selector, round_, *, wanted=3, candidates=None, answers=None):
    """The choice of a round; all asked clients answer with their initial vectors."""
    view = view_of(fleet, round_=round_, candidates=candidates, wanted=wanted)
    asked = [request.client for request in selector.probe(view)]
    if answers is None:
        answers = [initial(client) for client in asked]
    view = dataclasses.replace(view, reports=tuple(answers))
    return asked, selector.select(view).tolist()


def observe(selector, round_, reports, validation=(0.6, 0.9), **changes):
    validated = None if validation is None else Evaluation(*validation)
    outcome = dataclasses.replace(outcome_of(round_, reports), validation=validated, **changes)
    selector.observe(outcome)


def test_all_clients_there_are_asked_once_for_a_gradient():
    fleet, selector = ready()
    first = selector.probe(view_of(fleet, candidates=[0, 2]))

    assert [request.client for request in first] == [0, 2]
    for request in first:
        assert (request.work.kind, request.work.num_samples) == (WorkKind.GRADIENT, None)
        assert request.needs_model
        assert request.uploads_vector
    assert list(selector.probe(view_of(fleet, stage=1))) == []
    assert [r.client for r in selector.probe(view_of(fleet, round_=2))] == [1]
    assert list(selector.probe(view_of(fleet, round_=3))) == []


def test_the_first_gradient_may_be_that_of_a_batch_or_of_what_there_is():
    fleet, selector = ready(initial_batch=20)
    samples = [request.work.num_samples for request in selector.probe(view_of(fleet))]

    assert samples == [10, 20, 20]


def test_round_1_takes_the_longest_projections():
    fleet, selector = ready()
    asked, chosen = choose(fleet, selector, 1)
    state = selector.state()

    assert asked == [0, 1, 2]
    assert chosen[0] == 2
    assert state["direction"].tolist() == [2.0, 2.0, 0.0]
    assert state["projection"] == pytest.approx([C, C, 2 * C], rel=1e-12)
    assert state["num_pulls"].tolist() == [1, 1, 1]
    assert state["num_rewards"].tolist() == [0, 0, 0]


def test_a_round_by_hand():
    # Client 2 delivers g = (1, 1, 0): c = 4 / (2 sqrt 2) = 1.4142, the others keep 2.1213. With
    # e = exp(1.4142 - 2.1213) = .4931 the shares are 1, 1 and e over 2.4931. Accuracy .5 -> .6
    # makes the factor 2 exp(.1) = 2.2103. Then G = (1, 1, 0).
    fleet, selector = ready()
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [1.0, 1.0, 0.0])])
    state = selector.state()
    e = math.exp(math.sqrt(2.0) - C)
    share = np.array([1.0, 1.0, e]) / (2.0 + e)
    reward = share * [1.0, 1.0, 2.0 * math.exp(0.1)]

    assert state["projection"] == pytest.approx([C, C, math.sqrt(2.0)], rel=1e-6)
    assert state["reward_sum"] == pytest.approx(reward, rel=1e-6)
    assert state["num_rewards"].tolist() == [1, 1, 1]
    assert state["num_pulls"].tolist() == [1, 1, 2]
    assert state["direction"] == pytest.approx([1.0, 1.0, 0.0], rel=1e-6)

    # alpha = 1 / 10, n = 4: bonuses .1 sqrt(2 ln 4) = .1665 and .1 sqrt(ln 4) = .1177, so that u =
    # .4011 + .1665 = .5676 twice and .4372 + .1177 = .5549: 2 comes last.
    asked, chosen = choose(fleet, selector, 2)
    assert asked == []
    assert chosen[2] == 2


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        # mu of 2 is .1978 exp(.1) = .2186.
        ({"adjustment": "corrected"}, {0, 1}),
        # First shares 1, 1, exp(2.1213) = 8.342 over 10.342 count: (.8066 + .4372) / 2 = .622
        # against .0967, and .118 against .167.
        ({"mean": "per_pull"}, {2}),
        # rho = 0: .4372 against .4011.
        ({"exploration": 0.0}, {2}),
        # n = 2: .1 sqrt(2 ln 2) = .1177 and .0833: .5189 against .5204.
        ({"plays": "rounds"}, {2}),
    ],
)
def test_readings_of_the_paper_choose_differently(changes, first):
    fleet, selector = ready(**changes)
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [1.0, 1.0, 0.0])])

    assert choose(fleet, selector, 2)[1][0] in first


def test_exploration_grows_with_the_rounds():
    # As by hand, but 1 of 100 rounds gone: alpha = .01, bonuses .0167 and .0118: 2 is first.
    fleet, selector = ready(planned=100)
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [1.0, 1.0, 0.0])])

    assert choose(fleet, selector, 2)[1][0] == 2


def test_an_unchanged_accuracy_leaves_it_to_the_loss():
    # exp(F - F_before) = exp(.4), as printed.
    fleet, selector = ready()
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [3.0, 3.0, 0.0])], validation=(0.5, 1.4))
    shares = np.exp([C, C, 2 * C]) / np.exp([C, C, 2 * C]).sum()

    assert selector.state()["reward_sum"][2] == pytest.approx(shares[2] * math.exp(0.4), rel=1e-6)


def test_vectors_may_be_the_updates_themselves():
    fleet, selector = ready(vector="delta")
    choose(fleet, selector, 1)

    assert selector.state()["projection"] == pytest.approx([0.1 * C, 0.1 * C, 0.2 * C], rel=1e-6)

    observe(selector, 1, [trained(2, [1.0, 1.0, 0.0])])
    assert selector.state()["direction"] == pytest.approx([0.1, 0.1, 0.0], rel=1e-6)


def test_updates_are_divided_by_the_learning_rate_of_their_own_round():
    # Half the rate: the same distance is twice the gradient, (2, 2, 0) along (2, 2, 0).
    fleet, selector = ready()
    choose(fleet, selector, 1)
    view = dataclasses.replace(view_of(fleet, round_=2, wanted=1), learning_rate=0.05)
    selector.select(view)
    observe(selector, 2, [trained(2, [1.0, 1.0, 0.0])])

    assert selector.state()["projection"][2] == pytest.approx(2.0 * math.sqrt(2.0), rel=1e-6)
    assert selector.state()["direction"] == pytest.approx([2.0, 2.0, 0.0], rel=1e-6)


def test_the_first_gradient_of_a_newcomer_counts_the_learning_rate_of_its_round():
    fleet, selector = ready(vector="delta")
    view = view_of(fleet, round_=151)
    selector.probe(view)
    answers = (initial(0), initial(1), initial(2))
    selector.select(dataclasses.replace(view, reports=answers, learning_rate=0.05))

    assert selector.state()["projection"] == pytest.approx([0.05 * C, 0.05 * C, 0.1 * C], rel=1e-6)


def test_who_fails_keeps_projection_and_pulls_and_its_reward_is_its_share():
    fleet, selector = ready()
    choose(fleet, selector, 1)
    before = selector.state()
    observe(selector, 1, [trained(2, [9.0, 9.0, 9.0], Outcome.LATE)], validation=(0.5, 1.0))
    after = selector.state()
    shares = np.exp([C, C, 2 * C]) / np.exp([C, C, 2 * C]).sum()

    for name in ("projection", "num_pulls", "direction"):
        np.testing.assert_array_equal(after[name], before[name])
    assert after["reward_sum"] == pytest.approx(shares, rel=1e-12)


def test_a_round_that_was_not_aggregated_leaves_the_direction():
    fleet, selector = ready()
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [1.0, 1.0, 0.0])], aggregated=False)
    state = selector.state()

    assert state["direction"].tolist() == [2.0, 2.0, 0.0]
    assert state["projection"][2] == pytest.approx(math.sqrt(2.0), rel=1e-6)


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


def test_who_comes_later_is_asked_then_and_joins_with_its_share():
    # G = mean of FIRST[0] and FIRST[1] = (1.5, 1.5, 0): c = 3 / sqrt(2) for both. 0 delivers the
    # same vector again, so G = (3, 0, 0), and 2, who comes in round 2, has c = 9 / 3.
    fleet, selector = ready()
    choose(fleet, selector, 1, candidates=[0, 1])
    observe(selector, 1, [trained(0, FIRST[0])])
    asked, _ = choose(fleet, selector, 2)
    state = selector.state()
    shares = np.exp([C, C, 3.0]) / np.exp([C, C, 3.0]).sum()

    assert asked == [2]
    assert state["projection"] == pytest.approx([C, C, 3.0], rel=1e-6)
    assert state["num_pulls"].tolist() == [2, 1, 1]
    assert state["num_rewards"].tolist() == [1, 1, 1]
    assert state["reward_sum"][2] == pytest.approx(shares[2], rel=1e-6)


def test_who_was_asked_in_vain_goes_first_and_is_not_asked_again():
    fleet, selector = ready()
    answers = [initial(0), initial(1, outcome=Outcome.LATE), initial(2)]

    assert choose(fleet, selector, 1, answers=answers)[1][0] == 1

    observe(selector, 1, [trained(1, FIRST[1], Outcome.OFFLINE)])
    asked, chosen = choose(fleet, selector, 2)
    assert asked == []
    assert chosen[0] == 1

    observe(selector, 2, [trained(1, FIRST[1])])
    assert not math.isnan(selector.state()["projection"][1])


def test_without_an_answer_the_first_updates_are_the_direction():
    fleet, selector = ready()
    choose(fleet, selector, 1, answers=[])
    observe(selector, 1, [trained(0, [0.0, 4.0, 0.0])])

    assert selector.state()["projection"][0] == pytest.approx(4.0, rel=1e-6)


def test_what_it_must_know_is_asked_for_by_name():
    with pytest.raises(ScenarioError, match=r"set stop\.rounds"):
        ready(planned=None)
    with pytest.raises(ScenarioError, match=r"set evaluate\.validation_fraction"):
        ready(validation=None)


# --- the gradient at the client's own model -------------------------------------------------------


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


def test_a_round_goes_by_the_gradients_at_the_clients_own_models():
    """The figures of a round by hand, where (1, 1, 0) is now the answer and not the update."""
    fleet, selector = ready(vector="last_gradient")
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [7.0, -3.0, 1.0])])
    waiting = selector.state()
    asked, chosen = choose(fleet, selector, 2, answers=[initial(2, [1.0, 1.0, 0.0])])
    state = selector.state()
    e = math.exp(math.sqrt(2.0) - C)
    share = np.array([1.0, 1.0, e]) / (2.0 + e)

    assert waiting["projection"] == pytest.approx([C, C, 2 * C])
    assert waiting["num_rewards"].tolist() == [0, 0, 0]
    assert asked == [2]
    assert state["projection"] == pytest.approx([C, C, math.sqrt(2.0)], rel=1e-6)
    assert state["reward_sum"] == pytest.approx(share * [1, 1, 2 * math.exp(0.1)], rel=1e-6)
    assert state["num_pulls"].tolist() == [1, 1, 2]
    assert state["direction"] == pytest.approx([1.0, 1.0, 0.0], rel=1e-6)
    assert chosen[-1] == 2
    # Learned once: no client is asked again, and no round is pending.
    assert choose(fleet, selector, 3)[0] == []
    assert selector.state()["reward_sum"].tolist() == state["reward_sum"].tolist()


def test_a_lost_gradient_leaves_its_client_as_it_was_and_rewards_the_others():
    # Shares of c = C, C, 2 C: 1, 1 and f = exp(C) over 2 + f, for all three without the factor.
    fleet, selector = ready(vector="last_gradient")
    choose(fleet, selector, 1)
    observe(selector, 1, [trained(2, [1.0, 1.0, 0.0])])
    choose(fleet, selector, 2, answers=[initial(2, outcome=Outcome.OFFLINE)])
    state = selector.state()
    f = math.exp(C)

    assert state["projection"] == pytest.approx([C, C, 2 * C])
    assert state["num_pulls"].tolist() == [1, 1, 1]
    assert state["reward_sum"] == pytest.approx(np.array([1.0, 1.0, f]) / (2.0 + f))
    assert state["direction"].tolist() == [2.0, 2.0, 0.0]


def test_what_is_still_to_be_asked_for_is_kept_over_a_stop():
    fleet, first = ready(vector="last_gradient")
    choose(fleet, first, 1)
    observe(first, 1, [trained(2, [1.0, 2.0, 0.0])])
    _, second = ready(vector="last_gradient")
    second.restore(first.state())
    answers = [initial(2, [1.0, 1.0, 0.0])]

    assert choose(fleet, second, 2, answers=answers) == choose(fleet, first, 2, answers=answers)
    for name, column in first.state().items():
        np.testing.assert_array_equal(second.state()[name], column)
