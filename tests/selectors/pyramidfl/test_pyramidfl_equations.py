import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.selectors.pyramidfl.equations import (
    dropout_fractions,
    durations_s,
    ranks,
    step_ratios,
)


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_no_client_trains_more_than_eleven_times_as_long():
    # 990 s idle at 0.1 s a step are 9900 steps on top of 10.
    assert step_ratios(array(10.0, 1000.0), array(1.0, 1.0), num_steps=10).tolist() == [11.0, 1.0]


def test_whole_steps_are_not_lost_to_rounding():
    # 0.6 s idle at 0.2 s a step is 3 steps, although 0.6 / 0.2 is 2.999... in binary.
    assert step_ratios(array(0.0, 0.6), array(1.0, 1.0), num_steps=5)[0] == 1.6


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
