import numpy as np

from fleetsim.selectors.baselines.client_sets import drawn_set, sets_in_line

SETS = [np.array([0, 1]), np.array([2, 3]), np.array([4, 0])]


def test_every_set_is_drawn_by_the_same_share_of_the_uniforms():
    # 3000 points at the middles of equal cells of [0, 1): 1000 in each third.
    drawn = [drawn_set(3, (i + 0.5) / 3000) for i in range(3000)]

    assert np.bincount(drawn).tolist() == [1000, 1000, 1000]


def test_the_sets_stand_in_a_circle():
    assert sets_in_line(SETS, 1).tolist() == [2, 3, 4, 0, 0, 1]
    assert sets_in_line(SETS, 4).tolist() == sets_in_line(SETS, 1).tolist()
