import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.selectors.pyramidfl.equations import (
    dropout_fractions,
    durations_s,
    gradient_utilities,
    num_local_steps,
    ranks,
    step_ratios,
)


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_a_round_by_hand():
    # Norms 2, 4, 1; the first has 300 samples of which 10 steps of 20 took 200, the others have
    # 150 and 100, fewer than 200: G = 2*200/100, 4*150/100, 1*100/100 = 4, 6, 1; ranks 1, 0, 2.
    # Of K = 3 they drop .1 + rank * .5/3 = .266667, .1, .433333.
    # Computing 10, 20, 5 s and transfers 30, 20, 60 s: T = 10 + .733333*30 = 32,
    # 20 + .9*20 = 38, 5 + .566667*60 = 39. The round takes 39 s; they idle 7, 1 and 0 s, which
    # at 1, 2 and .5 s a step is 7, 0 and 0 steps: 1.7, 1, 1 times 10 steps.
    utilities = gradient_utilities(
        array(2.0, 4.0, 1.0), np.array([300, 150, 100]), np.array([200, 200, 200])
    )
    dropout = dropout_fractions(ranks(utilities))
    compute_s = array(10.0, 20.0, 5.0)
    duration_s = durations_s(compute_s, array(30.0, 20.0, 60.0), dropout)
    ratio = step_ratios(duration_s, compute_s, num_steps=10)

    assert utilities.tolist() == [4.0, 6.0, 1.0]
    assert dropout == pytest.approx([0.1 + 0.5 / 3, 0.1, 0.1 + 1.0 / 3])
    assert duration_s == pytest.approx([32.0, 38.0, 39.0])
    assert ratio == pytest.approx([1.7, 1.0, 1.0])
    assert num_local_steps(ratio, 10).tolist() == [17, 10, 10]


def test_no_client_trains_more_than_eleven_times_as_long():
    # 990 s idle at 0.1 s a step are 9900 steps on top of 10.
    assert step_ratios(array(10.0, 1000.0), array(1.0, 1.0), num_steps=10).tolist() == [11.0, 1.0]


def test_whole_steps_are_not_lost_to_rounding():
    # 0.6 s idle at 0.2 s a step is 3 steps, although 0.6 / 0.2 is 2.999... in binary.
    assert step_ratios(array(0.0, 0.6), array(1.0, 1.0), num_steps=5)[0] == 1.6


def test_equals_share_a_rank():
    assert ranks(array(2.0, 5.0, 2.0, 5.0, 1.0)).tolist() == [2, 0, 2, 0, 4]
    assert ranks(array(7.0)).tolist() == [0]
    assert ranks(array()).tolist() == []


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=10), st.floats(0.0, 2.0))
def test_the_better_one_uploads_more_and_no_client_leaves_the_range(utilities, beta):
    utility = np.array(utilities)
    dropout = dropout_fractions(ranks(utility), lowest=0.2, highest=0.7)
    order = np.argsort(-utility, kind="stable")
    ratio = step_ratios(
        durations_s(np.ones(utility.size), utility, dropout),
        np.ones(utility.size),
        num_steps=4,
        beta=beta,
    )

    assert np.all(np.diff(dropout[order]) >= 0.0)
    assert 0.2 <= dropout.min() <= dropout.max() < 0.7
    assert 1.0 <= ratio.min() <= ratio.max() <= 11.0
