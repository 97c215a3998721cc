"""TiFL on six clients of 1 to 6 seconds: with three tiers they are {0, 1}, {2, 3}, {4, 5}."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.tifl.equations import (
    DROPPED,
    changed_probabilities,
    choose,
    draw_tier,
    latency_s,
    tiers,
)
from fleetsim.selectors.tifl.selector import TiFLSettings
from tests.selectors.rounds import met, outcome_of, probed, report_of, view_of


def ready(size=6, *, cohort=2, planned=30, **settings):
    more = {"cohort": cohort, "planned_rounds": planned, "epochs": 3}
    return met(TiFLSettings(**({"num_tiers": 3} | settings)), (10,) * size, **more)


def answer(request, stage, *, late=(), accuracy=None):
    """Clients train in 1 to 6 s, or are late after 50 s, and evaluate with given accuracies."""
    is_late = request.client in late
    report = report_of(
        request.client,
        duration_s=50.0 if is_late else 1.0 + request.client,
        outcome=Outcome.LATE if is_late else Outcome.DELIVERED,
        purpose=Purpose.PROBE,
    )
    if request.work.kind is WorkKind.EVALUATE and not is_late:
        return report._replace(accuracy=(accuracy or {}).get(request.client, 0.5))
    return report


def play(fleet, selector, round_, *, candidates=None, **answers):
    """One round: what was asked of whom, stage by stage, and who was chosen."""
    asked, view = probed(
        selector, fleet, partial(answer, **answers), round_=round_, candidates=candidates
    )
    stages = [(stage[0].work.kind, [request.client for request in stage]) for stage in asked]
    chosen = selector.select(view).tolist()
    selector.observe(outcome_of(round_, [report_of(client) for client in chosen]))
    return stages, chosen


def test_who_never_answers_in_time_is_dropped():
    # Clients 3 and 5 are late after 50 s; with T_max = 4.5 s client 4 is late too.
    fleet, selector = ready(num_tiers=2)
    play(fleet, selector, 1, late=[3, 5])
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, DROPPED, 1, DROPPED]

    fleet, selector = ready(num_tiers=2, max_s=4.5)
    play(fleet, selector, 1, late=[3, 5])
    assert selector.state()["tier_of"].tolist() == [0, 0, 1, DROPPED, DROPPED, DROPPED]
    chosen = {client for r in range(2, 30) for client in play(fleet, selector, r)[1]}
    assert chosen == {0, 1, 2}


ACCURACY = {0: 0.9, 1: 0.7, 2: 0.2, 3: 0.4, 4: 0.5, 5: 0.5}
"""Tiers: 0.8, 0.3, 0.5."""


def test_tiers_without_clients_have_no_part_in_the_probabilities():
    # Two clients, so two tiers, of accuracies .9 and .7: 1 / 3 and 2 / 3.
    fleet, selector = ready(2, interval_rounds=1, trigger="every")
    play(fleet, selector, 1, accuracy=ACCURACY)

    assert selector.state()["probability"] == pytest.approx([1 / 3, 2 / 3, 0.0])


def test_static_tiers_ask_for_no_accuracy_and_need_no_losses():
    fleet, selector = ready(rule="none", interval_rounds=1)
    stages = [play(fleet, selector, round_)[0] for round_ in range(1, 4)]

    assert stages == [[(WorkKind.TRAIN, [0, 1, 2, 3, 4, 5])], [], []]
    assert not selector.needs_losses
    assert TiFLSettings().build().needs_losses


def test_a_fleet_of_which_no_client_answers_is_refused():
    fleet, selector = ready()

    with pytest.raises(
        ScenarioError, match=r"none answered in time; raise server\.selector\.max_s"
    ):
        play(fleet, selector, 1, late=range(6))


def test_credits_by_an_open_number_of_rounds_are_refused():
    with pytest.raises(ScenarioError, match=r"set stop\.rounds, or credits: unlimited"):
        ready(planned=None)


def test_who_arrives_while_tiers_are_measured_is_profiled_next_time():
    fleet, selector = ready(profile_rounds=3, interval_rounds=2)
    play(fleet, selector, 1, candidates=[0, 1, 2])
    asked = selector.probe(view_of(fleet, round_=2, candidates=[0, 1, 2]))
    reports = [answer(request, 0) for request in asked]

    assert {request.work.kind for request in asked} == {WorkKind.EVALUATE}
    assert list(selector.probe(view_of(fleet, round_=2, reports=reports, stage=1))) == []


LATENCIES = st.lists(st.one_of(st.integers(1, 9).map(float), st.just(math.nan)), max_size=15).map(
    lambda values: np.array(values, dtype=np.float64)
)


def test_latencies_are_sums_of_times_cut_at_the_limit():
    # T_max = 10. 3 + 4 + 5; 3 + 10 (late) + 10 (no answer); never in time, or just not.
    observed_s = np.array(
        [[3.0, 4.0, 5.0], [3.0, 25.0, np.nan], [np.nan, 10.0, 11.0], [9.0, 9.0, 9.0]]
    )
    latencies_s = latency_s(observed_s, 10.0)

    assert latencies_s[[0, 1, 3]].tolist() == [12.0, 23.0, 27.0]
    assert math.isnan(latencies_s[2])
    # Ten times 0.1 add up to 0.9999999999999999 < 10 * 0.1.
    assert math.isnan(latency_s(np.full((1, 10), 0.1), 0.1)[0])


def test_tiers_of_equal_size_or_width_go_from_fast_to_slow():
    # Sorted: client 3 (1 s), 0 (2), 5 (3), 1 (4), 4 (8); 2 is dropped. Five in two: 3 and 2.
    latencies_s = np.array([2.0, 4.0, np.nan, 1.0, 8.0, 3.0])
    assert tiers(latencies_s, 2, np.zeros(6)).tolist() == [0, 1, DROPPED, 0, 1, 0]
    # 1 to 9 in four intervals: [1, 3), [3, 5), [5, 7), [7, 9]; none in the third.
    latencies_s = np.array([1.0, 3.0, 9.0, 2.9, 7.0, np.nan])
    assert tiers(latencies_s, 4, np.zeros(6), "width").tolist() == [0, 1, 2, 0, 2, DROPPED]
    # Keys decide between equal latencies; in a histogram all of them are in the first interval.
    assert tiers(np.full(4, 5.0), 2, np.array([0.8, 0.1, 0.9, 0.3])).tolist() == [1, 0, 1, 0]
    assert tiers(np.full(3, 5.0), 2, np.zeros(3), "width").tolist() == [0, 0, 0]


@settings(max_examples=40)
@given(
    latencies_s=LATENCIES,
    num_tiers=st.integers(1, 6),
    split=st.sampled_from(["count", "width"]),
    data=st.data(),
)
def test_tiers_are_in_order_without_gaps_and_follow_their_clients(
    latencies_s, num_tiers, split, data
):
    order = np.array(data.draw(st.permutations(range(latencies_s.size))), dtype=np.int64)
    keys = rng.stream(1, "keys").random(latencies_s.size)
    tier_of = tiers(latencies_s, num_tiers, keys, split)

    used = sorted(set(tier_of.tolist()) - {DROPPED})
    assert used == list(range(len(used)))
    assert len(used) <= num_tiers
    assert np.array_equal(tier_of == DROPPED, np.isnan(latencies_s))
    assert tiers(latencies_s[order], num_tiers, keys[order], split).tolist() == (
        tier_of[order].tolist()
    )
    for fast in range(len(used) - 1):
        assert latencies_s[tier_of == fast].max() <= latencies_s[tier_of == fast + 1].min()
    if split == "count" and used:
        sizes = np.bincount(tier_of[tier_of != DROPPED])
        assert sizes.max() - sizes.min() <= 1
        assert len(used) == min(num_tiers, int(sizes.sum()))


def test_tiers_are_drawn_in_proportion_to_their_probabilities():
    # P = .5, .2, .3 of which 1 is closed: .5/.8 = 625 and .3/.8 = 375 of 1000 equal cells.
    probabilities, is_open = np.array([0.5, 0.2, 0.3]), np.array([True, False, True])
    drawn = [draw_tier(probabilities, is_open, (i + 0.5) / 1000) for i in range(1000)]

    assert np.bincount(drawn).tolist() == [625, 0, 375]
    # Uniformly where no open tier has a probability.
    drawn = [draw_tier(np.array([0.0, 1.0, 0.0]), is_open, u) for u in (0.1, 0.4, 0.6, 0.9)]
    assert drawn == [0, 0, 2, 2]


@settings(max_examples=40)
@given(
    weights=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
    data=st.data(),
)
def test_a_closed_tier_is_never_drawn(weights, uniform, data):
    size = len(weights)
    is_open = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(any)))
    tier = draw_tier(np.array(weights), is_open, uniform)

    assert is_open[tier]
    assert weights[tier] > 0.0 or not any(np.array(weights)[is_open])


def test_rounding_draws_no_tier_without_a_probability():
    last = float(np.nextafter(1.0, 0.0))

    assert draw_tier(np.array([0.1, 0.7, 0.0]), np.full(3, True), last) == 1
    # .9 of the smallest number rounds to that number, the end of the last tier.
    assert draw_tier(np.array([5e-324, 0.0]), np.full(2, True), 0.9) == 0


def test_the_worse_a_tier_the_more_probable_it_becomes():
    # Ascending: tier 1 (.5), 2 (.7), 0 (.9). n = 3: D = 6: 3/6, 2/6, 1/6.
    accuracies, credit, keys = np.array([0.9, 0.5, 0.7]), np.ones(3), np.zeros(3)

    assert changed_probabilities(accuracies, credit, keys) == pytest.approx([1 / 6, 1 / 2, 1 / 3])
    # D = 3: 2/3, 1/3, 0.
    to_zero = changed_probabilities(accuracies, credit, keys, "rank_to_zero")
    assert to_zero == pytest.approx([0.0, 2 / 3, 1 / 3])
    # 1 - A = .1, .5, .3 of .9.
    error = changed_probabilities(accuracies, credit, keys, "error")
    assert error == pytest.approx([1 / 9, 5 / 9, 3 / 9])
    # Without tier 1 there are two: tier 2 is the worse: 2/3, tier 0: 1/3.
    paying = changed_probabilities(accuracies, np.array([4.0, 0.0, 1.0]), keys)
    assert paying == pytest.approx([1 / 3, 0.0, 2 / 3])
    # Never measured is the worst, and keys decide between equals.
    unknown, order = np.array([0.3, np.nan, 0.3]), np.array([0.9, 0.5, 0.1])
    assert changed_probabilities(unknown, credit, order) == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    with pytest.raises(ValueError, match=r"between 0 and 1, got 90\.0"):
        changed_probabilities(100.0 * accuracies, credit, keys)


@settings(max_examples=40)
@given(
    accuracies=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8),
    rule=st.sampled_from(["rank", "rank_to_zero", "error"]),
    data=st.data(),
)
def test_probabilities_sum_to_one_and_fall_with_accuracy(accuracies, rule, data):
    size = len(accuracies)
    order = data.draw(st.permutations(range(size)))
    values, keys = np.array(accuracies), np.arange(size, dtype=float)
    probabilities = changed_probabilities(values, np.ones(size), keys, rule)

    assert probabilities.sum() == pytest.approx(1.0)
    assert np.all(np.diff(probabilities[np.lexsort((keys, values))]) <= 1e-12)
    assert changed_probabilities(values[order], np.ones(size), keys[order], rule) == pytest.approx(
        probabilities[order]
    )


@settings(max_examples=40)
@given(
    tier_of=st.lists(st.integers(-1, 3), max_size=12),
    tier=st.integers(0, 3),
    num=st.integers(0, 14),
    fill=st.sampled_from(["slower", "none"]),
)
def test_a_choice_is_the_head_of_the_tier_and_those_behind_it(tier_of, tier, num, fill):
    keys = rng.stream(2, "keys").random(len(tier_of))
    meant = [i for i, t in enumerate(tier_of) if t == tier or (fill == "slower" and t > tier)]
    slow = sorted(meant, key=lambda i: (tier_of[i], keys[i]))[:num]

    assert choose(np.array(tier_of, dtype=np.int64), tier, num, keys, fill).tolist() == slow


@pytest.mark.parametrize("rule", ["rank", "rank_to_zero", "error"])
def test_one_paying_tier_is_certain_and_none_impossible(rule):
    accuracies, keys = np.array([1.0, 0.2]), np.zeros(2)

    one = changed_probabilities(accuracies, np.array([1.0, 0.0]), keys, rule)
    none = changed_probabilities(accuracies, np.zeros(2), keys, rule)

    assert one.tolist() == [1.0, 0.0]
    assert none.tolist() == [0.0, 0.0]
