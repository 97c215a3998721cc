import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.selectors.survey.equations import (
    average_loss_scores,
    choose_others,
    confidence_bound_scores,
    sample_shares,
    with_losses,
)
from fleetsim.selectors.tie_breaking import best

SHARES = np.array([0.5, 0.3, 0.2])
LOSS_SUM = np.array([4.0, 3.0, 0.0])
NUM_LOSSES = np.array([2, 3, 0])


def test_policy_2_multiplies_its_bonus_by_the_share_too():
    # t = 10, ln 10 = 2.3025851: sqrt(2 ln 10 / 2) = 1.5174271, sqrt(2 ln 10 / 3) = 1.2389741
    # .5 (2 + 1.5174271) = 1.7587136, .3 (1 + 1.2389741) = .6716922
    scores = confidence_bound_scores(SHARES, LOSS_SUM, NUM_LOSSES, 10)

    assert scores == pytest.approx([1.7587136, 0.6716922, math.inf], abs=1e-7)
    # In round one it is policy 1.
    one = confidence_bound_scores(SHARES, LOSS_SUM, NUM_LOSSES, 1)
    assert one.tolist() == average_loss_scores(SHARES, LOSS_SUM, NUM_LOSSES).tolist()


def test_the_first_rounds_go_through_all_clients():
    # N = 5, K = 2: three rounds, whatever the losses are.
    shares, sums, nums = sample_shares(np.array([9, 1, 5, 3, 2])), np.zeros(5), np.zeros(5, int)
    keys = np.array([0.3, 0.1, 0.5, 0.2, 0.4])
    cohorts = []
    for round_ in (1, 2, 3):
        cohort = best(confidence_bound_scores(shares, sums, nums, round_), 2, keys)
        sums, nums = with_losses(sums, nums, cohort, np.full(2, 100.0))
        cohorts.append(cohort.tolist())

    assert cohorts[:2] == [[1, 3], [0, 4]]
    assert cohorts[2][0] == 2


@given(
    losses=st.lists(st.floats(0.0, 10.0), min_size=2, max_size=9),
    round_=st.integers(2, 1000),
    data=st.data(),
)
def test_scores_follow_their_clients_and_grow_with_losses(losses, round_, data):
    size = len(losses)
    order = data.draw(st.permutations(range(size)))
    sums, nums = np.array(losses), np.arange(1, size + 1)
    shares = sample_shares(np.arange(1, size + 1))
    scores = confidence_bound_scores(shares, sums, nums, round_)

    assert (
        confidence_bound_scores(shares[order], sums[order], nums[order], round_).tolist()
        == scores[order].tolist()
    )
    assert np.all(confidence_bound_scores(shares, sums + 1.0, nums, round_) > scores)
    assert np.all(confidence_bound_scores(shares, sums, nums, round_ + 1) > scores)


def test_losses_are_added_up_and_what_is_no_number_is_not():
    before = np.array([1.0, 2.0, 0.0, 5.0]), np.array([1, 1, 0, 2])
    sums, nums = with_losses(*before, np.array([2, 0, 3]), np.array([0.5, 3.0, np.nan]))

    assert sums.tolist() == [4.0, 2.0, 0.5, 5.0]
    assert nums.tolist() == [2, 1, 1, 2]
    assert before[0].tolist() == [1.0, 2.0, 0.0, 5.0]
    with pytest.raises(ValueError, match="losses must have one entry for each of 2"):
        with_losses(*before, np.array([0, 1]), np.ones(3))


def test_policy_3_repeats_only_where_others_are_missing():
    keys = np.array([0.9, 0.1, 0.5, 0.2])

    assert choose_others(np.array([False, True, False, False]), 3, keys).tolist() == [3, 2, 0]
    assert choose_others(np.array([False, True, True, True]), 3, keys).tolist() == [0, 1, 3]
