import numpy as np
import pytest

from fleetsim.selectors.baselines.client_sets import drawn_set, sets_in_line

SETS = [np.array([0, 1]), np.array([2, 3]), np.array([4, 0])]


def test_every_set_is_drawn_by_the_same_share_of_the_uniforms():
    # 3000 points at the middles of equal cells of [0, 1): 1000 in each third.
    drawn = [drawn_set(3, (i + 0.5) / 3000) for i in range(3000)]

    assert np.bincount(drawn).tolist() == [1000, 1000, 1000]


def test_the_last_uniform_below_one_draws_the_last_set():
    assert drawn_set(7, np.nextafter(1.0, 0.0)) == 6


def test_the_sets_stand_in_a_circle():
    assert sets_in_line(SETS, 1).tolist() == [2, 3, 4, 0, 0, 1]
    assert sets_in_line(SETS, 4).tolist() == sets_in_line(SETS, 1).tolist()


def test_no_set_a_negative_turn_and_a_uniform_of_one_are_refused():
    with pytest.raises(ValueError, match="at least 1 set, got 0"):
        sets_in_line([], 0)
    with pytest.raises(ValueError, match="got -1"):
        sets_in_line(SETS, -1)
    with pytest.raises(ValueError, match=r"uniform must be in \[0, 1\), got 1\.0"):
        drawn_set(3, 1.0)
    with pytest.raises(ValueError, match="num_sets must be at least 1, got 0"):
        drawn_set(0, 0.5)
