import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fleetsim import rng
from fleetsim.selectors.divfl.equations import (
    cluster_sizes,
    dissimilarities,
    greedy,
    refreshed,
)

# Five clients whose gradients are single numbers 0, 1, 2, 10, 11.
LINE = np.abs(np.subtract.outer([0.0, 1, 2, 10, 11], [0.0, 1, 2, 10, 11]))


def points(seed: int, num: int, dimension: int) -> np.ndarray:
    return rng.stream(seed, "points").normal(size=(num, dimension))


def cost(matrix, chosen):
    """The objective: the sum over rows of the least dissimilarity to a chosen column."""
    return matrix[:, chosen].min(axis=1, initial=np.inf).sum()


def test_greedy_by_hand():
    # Sums of distances: 24, 21, 20, 28, 32: the medoid is 2. With 3 or with 4 beside it the
    # cost is 2+1+0+0+1 = 4, and the key decides for 3. Then 0 and 1 both leave 2, and 4 leaves 3.
    keys = np.array([0.5, 0.1, 0.2, 0.3, 0.9])

    assert greedy(LINE, 3, keys).tolist() == [2, 3, 1]
    assert greedy(LINE, 3, -keys).tolist() == [2, 4, 0]
    assert cost(LINE, np.array([2, 3])) == 4.0
    # Rows 0, 1, 2 are nearest to 2 and rows 3, 4 to 3.
    assert cluster_sizes(LINE, np.array([2, 3])).tolist() == [3, 2]


def test_who_cannot_be_chosen_is_still_represented():
    # Only 0 and 1 are there; 10 and 11 count all the same: costs 24 and 21.
    assert greedy(LINE[:, :2], 1, np.zeros(2)).tolist() == [1]
    # Without them 0 and 1 would cost 3 and 2, without any only the key decides.
    assert greedy(LINE[:0, :2], 1, np.array([0.1, 0.2])).tolist() == [0]


@pytest.mark.parametrize("seed", range(12))
def test_greedy_reaches_its_bound_against_all_subsets(seed):
    matrix = dissimilarities(points(seed, 8, 3))
    far = matrix.max()
    for num in (1, 2, 3, 4):
        gain = 8 * far - cost(matrix, greedy(matrix, num, np.arange(8.0)))
        most = max(
            8 * far - cost(matrix, np.array(subset))
            for subset in itertools.combinations(range(8), num)
        )

        assert (1 - 1 / math.e) * most <= gain <= most + 1e-9
        assert num > 1 or gain == pytest.approx(most)


@pytest.mark.parametrize("seed", range(5))
def test_stochastic_greedy_over_all_clients_is_greedy(seed):
    matrix = dissimilarities(points(seed, 9, 2))
    keys, uniforms = np.arange(9.0), rng.stream(seed, "u").random((4, 9))

    assert greedy(matrix, 4, keys, uniforms, 9).tolist() == greedy(matrix, 4, keys).tolist()


def test_two_that_are_nearest_to_each_other_are_a_tie_however_sums_round():
    # The last is the medoid, at 5, .2, .3, 5 and 0. Of 0 and 3, .1 apart, either lowers that to
    # .2 + .3 + .1; in the order of the rows one sum is .6, the other .6000000000000001.
    far = 9.0
    apart = np.array(
        [
            [0.0, far, far, 0.1, 5.0],
            [far, 0.0, far, far, 0.2],
            [far, far, 0.0, far, 0.3],
            [0.1, far, far, 0.0, 5.0],
            [5.0, far, far, 5.0, 0.0],
        ]
    )

    assert (0.2 + 0.3) + 0.1 != (0.1 + 0.2) + 0.3
    assert greedy(apart, 2, np.array([0.1, 0.5, 0.5, 0.9, 0.5])).tolist() == [4, 0]
    assert greedy(apart, 2, np.array([0.9, 0.5, 0.5, 0.1, 0.5])).tolist() == [4, 3]


def test_stochastic_greedy_takes_the_best_of_each_sample():
    # Two of five seen. Step 1 sees 0 and 3 (costs 24, 28): 0. Step 2 sees, of the rest, 1 and 4:
    # beside 0 they leave 0+0+1+9+10 = 20 and 0+1+2+1+0 = 4: 4. Step 3 sees 2 and 3, which leave
    # 0+1+0+1+0 = 2 and 0+1+2+0+0 = 3: 2.
    uniforms = np.array(
        [[0.1, 0.5, 0.6, 0.2, 0.7], [0.0, 0.1, 0.8, 0.9, 0.2], [0.0, 0.9, 0.1, 0.2, 0.0]]
    )

    assert greedy(LINE, 3, np.zeros(5), uniforms, 2).tolist() == [0, 4, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dissimilarities_are_distances(dtype):
    # More parameters than two blocks hold.
    own, other = points(1, 4, 20_000).astype(dtype), points(2, 3, 20_000).astype(dtype)
    exact = cdist(own.astype(np.float64), other.astype(np.float64))

    assert dissimilarities(own, other) == pytest.approx(exact, rel=1e-9)
    assert dissimilarities(own, other, "squared_l2") == pytest.approx(exact**2, rel=1e-9)


def test_equal_gradients_are_at_zero_and_near_ones_keep_their_digits():
    near = np.array([[1e6, 1.0], [1e6, 1.0], [1e6, 1.0 + 1e-4]])
    matrix = dissimilarities(near)

    assert matrix[0, 1] == 0.0
    assert matrix[0, 2] == pytest.approx(1e-4, rel=1e-9)
    assert np.array_equal(matrix, matrix.T)


def test_a_refresh_is_what_all_anew_would_be():
    before, after = points(3, 6, 40), points(3, 6, 40)
    after[[4, 1]] = points(4, 2, 40)
    matrix = dissimilarities(before)
    kept = matrix.copy()
    new = refreshed(matrix, after, np.array([4, 1]))

    assert new == pytest.approx(dissimilarities(after), rel=1e-12)
    assert np.array_equal(new, new.T)
    assert np.array_equal(matrix, kept)
