from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.afl.equations import (
    choose,
    num_active,
    num_left_out,
    sampling_probabilities,
    valuations,
)

NO_TIES = np.arange(5.0)


def test_a_valuation_is_the_summed_loss_over_the_root_of_the_size():
    # Four samples of losses 1, 2, 3, 2: sum 8, over sqrt(4) is 4; one sample of loss 0.5: 0.5.
    assert valuations(np.array([4, 1]), np.array([2.0, 0.5])).tolist() == [4.0, 0.5]


def test_the_smallest_are_left_out_and_the_others_weighted_by_their_exponentials():
    # Two of five are left out (0.4). With alpha_2 = ln 2 the others weigh 2^3, 2^4 and 2^5.
    values = np.array([3.0, 1.0, 5.0, 2.0, 4.0])
    chances = sampling_probabilities(values, 0.4, math.log(2.0), NO_TIES)

    assert chances == pytest.approx([8 / 56, 0.0, 32 / 56, 0.0, 16 / 56])


def test_a_tie_at_the_border_is_broken_by_the_keys():
    # All equal, one left out: the one of the largest key.
    chances = sampling_probabilities(np.ones(3), 0.4, 1.0, np.array([0.2, 0.9, 0.5]))

    assert chances.tolist() == [0.5, 0.0, 0.5]


def test_large_valuations_do_not_overflow():
    chances = sampling_probabilities(np.array([5e4, 5e4 + 1.0]), 0.0, 1.0, np.zeros(2))

    assert chances == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)])


def test_a_choice_by_hand():
    # As above with clients in order: weights 0, 0, 8, 16, 32. Arrivals E/w of 2, 3, 4 are 1/8,
    # 3/16 and 5/32, so 2 comes first and 4 second. One more (alpha_3 = 1/3 of 3) is uniform among
    # 0, 1, 3, of which 1 has the smallest number.
    chosen = choose(
        np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        3,
        alpha_1=0.4,
        alpha_2=math.log(2.0),
        alpha_3=1 / 3,
        exponentials=np.array([0.01, 0.01, 1.0, 3.0, 5.0]),
        uniforms=np.array([0.5, 0.2, 0.1, 0.9, 0.1]),
        keys=NO_TIES,
    )

    assert chosen.tolist() == [2, 4, 1]


@pytest.mark.slow
def test_the_first_choice_follows_the_probabilities():
    # Weights 1, 2, 4 of three, one more left out: 4000 draws, 4 standard errors.
    values = np.array([0.0, 1.0, 2.0, -1.0])
    exact = np.array([1, 2, 4, 0]) / 7
    firsts = []
    for draw in range(4000):
        stream = rng.stream(5, "afl", draw)
        firsts.append(
            choose(
                values,
                1,
                alpha_1=0.25,
                alpha_2=math.log(2.0),
                alpha_3=0.0,
                exponentials=stream.standard_exponential(4),
                uniforms=stream.random(4),
                keys=np.arange(4.0),
            )[0]
        )
    share = np.bincount(firsts, minlength=4) / 4000

    assert np.all(np.abs(share - exact) <= 4 * np.sqrt(exact * (1 - exact) / 4000))


@pytest.mark.slow
def test_the_uniform_part_reaches_those_left_out_as_often_as_anybody():
    # One active (client 3, the only one not left out), then one uniform of 0, 1, 2: 1/3 each.
    seconds = []
    for draw in range(3000):
        stream = rng.stream(6, "afl", draw)
        chosen = choose(
            np.array([1.0, 2.0, 3.0, 4.0]),
            2,
            alpha_1=0.75,
            alpha_2=0.01,
            alpha_3=0.5,
            exponentials=stream.standard_exponential(4),
            uniforms=stream.random(4),
            keys=np.arange(4.0),
        )
        assert chosen[0] == 3
        seconds.append(chosen[1])
    share = np.bincount(seconds, minlength=4) / 3000

    assert np.all(np.abs(share - [1 / 3, 1 / 3, 1 / 3, 0]) <= 4 * math.sqrt(2 / 9 / 3000))


@pytest.mark.parametrize(
    ("wanted", "alpha_3", "active", "random"),
    # K = 5 and 0.1: 4.5 rounds to 4 + 1 or 5 + 0; 0.3 of 10 is 7 + 3 either way.
    [(5, 0.1, 4, 5), (10, 0.3, 7, 7), (10, 0.9, 1, 1), (7, 0.0, 7, 7), (7, 1.0, 0, 0)],
)
def test_one_part_of_the_cohort_is_rounded_down(wanted, alpha_3, active, random):
    assert num_active(wanted, alpha_3) == active
    assert num_active(wanted, alpha_3, "random") == random


def test_the_number_left_out_is_rounded_down():
    assert [num_left_out(n, 0.75) for n in (0, 1, 3, 4, 100)] == [0, 0, 2, 3, 75]


def test_who_was_never_evaluated_is_only_drawn_uniformly():
    unknown = np.full(3, -np.inf)
    chances = sampling_probabilities(unknown, 0.0, 1.0, np.zeros(3))
    chosen = choose(
        np.array([-np.inf, 2.0, -np.inf]),
        2,
        alpha_1=0.0,
        alpha_2=1.0,
        alpha_3=0.0,
        exponentials=np.ones(3),
        uniforms=np.array([0.9, 0.5, 0.1]),
        keys=np.zeros(3),
    )

    assert chances.tolist() == [0.0, 0.0, 0.0]
    assert chosen.tolist() == [1, 2]


@pytest.mark.slow
@given(
    st.lists(st.floats(-5.0, 1e4), max_size=20),
    st.integers(0, 25),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from(["active", "random"]),
)
def test_a_choice_is_distinct_and_full_and_its_active_part_is_not_left_out(
    values, wanted, alpha_1, alpha_3, rounding
):
    valued = np.array(values, dtype=np.float64)
    stream = rng.stream(len(values), "afl", wanted)
    keys = stream.random(valued.size)
    chosen = choose(
        valued,
        wanted,
        alpha_1=alpha_1,
        alpha_2=0.01,
        alpha_3=alpha_3,
        exponentials=stream.standard_exponential(valued.size),
        uniforms=stream.random(valued.size),
        keys=keys,
        rounding=rounding,
    )
    worst = set(np.lexsort((-keys, valued))[: num_left_out(valued.size, alpha_1)].tolist())
    num_drawn = min(num_active(wanted, alpha_3, rounding), valued.size - len(worst))

    assert len(set(chosen.tolist())) == chosen.size == min(wanted, valued.size)
    assert not worst & set(chosen[:num_drawn].tolist())


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"alpha_1 must be in \[0, 1\], got 1.5"):
        num_left_out(3, 1.5)
    with pytest.raises(ValueError, match="alpha_3 must be"):
        num_active(3, -0.1)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match=f"finite or -infinity, got {bad}"):
            sampling_probabilities(np.array([0.0, bad]), 0.0, 1.0, np.zeros(2))
    with pytest.raises(ValueError, match="exponentials"):
        choose(
            np.ones(2),
            1,
            alpha_1=0.0,
            alpha_2=1.0,
            alpha_3=0.0,
            exponentials=np.ones(3),
            uniforms=np.ones(2),
            keys=np.ones(2),
        )
