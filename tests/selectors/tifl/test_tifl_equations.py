import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.tifl.equations import (
    DROPPED,
    changed_probabilities,
    choose,
    draw_tier,
    latency_s,
    open_tiers,
    tier_accuracies,
    tiers,
)

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


def test_tiers_of_equal_size_go_from_fast_to_slow():
    # Sorted: client 3 (1 s), 0 (2), 5 (3), 1 (4), 4 (8); 2 is dropped. Five in two: 3 and 2.
    latencies_s = np.array([2.0, 4.0, np.nan, 1.0, 8.0, 3.0])
    assert tiers(latencies_s, 2, np.zeros(6)).tolist() == [0, 1, DROPPED, 0, 1, 0]
    # Keys decide between equal latencies.
    assert tiers(np.full(4, 5.0), 2, np.array([0.8, 0.1, 0.9, 0.3])).tolist() == [1, 0, 1, 0]


@settings(max_examples=40)
@given(
    latencies_s=LATENCIES,
    num_tiers=st.integers(1, 6),
    data=st.data(),
)
def test_tiers_are_in_order_without_gaps_and_follow_their_clients(latencies_s, num_tiers, data):
    order = np.array(data.draw(st.permutations(range(latencies_s.size))), dtype=np.int64)
    keys = rng.stream(1, "keys").random(latencies_s.size)
    tier_of = tiers(latencies_s, num_tiers, keys)

    used = sorted(set(tier_of.tolist()) - {DROPPED})
    assert used == list(range(len(used)))
    assert len(used) <= num_tiers
    assert np.array_equal(tier_of == DROPPED, np.isnan(latencies_s))
    assert tiers(latencies_s[order], num_tiers, keys[order]).tolist() == (tier_of[order].tolist())
    for fast in range(len(used) - 1):
        assert latencies_s[tier_of == fast].max() <= latencies_s[tier_of == fast + 1].min()
    if used:
        sizes = np.bincount(tier_of[tier_of != DROPPED])
        assert sizes.max() - sizes.min() <= 1
        assert len(used) == min(num_tiers, int(sizes.sum()))


@pytest.mark.parametrize(
    ("credit", "num_available", "expected"),
    [
        ([1.0, 0.0, 3.0], [4, 4, 0], [True, False, False]),
        # Spent credits do not end a run.
        ([0.0, 0.0, 0.0], [4, 0, 1], [True, False, True]),
        ([0.0, 2.0], [4, 0], [True, False]),
        ([1.0, 1.0], [0, 0], [False, False]),
    ],
)
def test_tiers_without_credits_or_clients_are_closed(credit, num_available, expected):
    assert open_tiers(np.array(credit), np.array(num_available)).tolist() == expected


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


def test_the_accuracy_of_a_tier_is_that_on_all_its_samples():
    # Tier 0: (.5 * 10 + .9 * 30) / 40 = .8; tier 1: one of two answered; tier 2: none did.
    accuracy = tier_accuracies(
        np.array([0, 0, 1, 1, 2, DROPPED]),
        3,
        np.array([0.5, 0.9, 0.25, np.nan, np.nan, 0.0]),
        np.array([10, 30, 7, 5, 5, 5]),
    )

    assert accuracy[:2] == pytest.approx([0.8, 0.25])
    assert math.isnan(accuracy[2])


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


@pytest.mark.parametrize("rule", ["rank", "rank_to_zero", "error"])
def test_one_paying_tier_is_certain_and_none_impossible(rule):
    accuracies, keys = np.array([1.0, 0.2]), np.zeros(2)

    one = changed_probabilities(accuracies, np.array([1.0, 0.0]), keys, rule)
    none = changed_probabilities(accuracies, np.zeros(2), keys, rule)

    assert one.tolist() == [1.0, 0.0]
    assert none.tolist() == [0.0, 0.0]


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
)
def test_a_choice_is_the_head_of_the_tier_and_those_behind_it(tier_of, tier, num):
    keys = rng.stream(2, "keys").random(len(tier_of))
    meant = [i for i, t in enumerate(tier_of) if t >= tier]
    slow = sorted(meant, key=lambda i: (tier_of[i], keys[i]))[:num]

    assert choose(np.array(tier_of, dtype=np.int64), tier, num, keys).tolist() == slow
