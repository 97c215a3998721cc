import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fleetsim import rng
from fleetsim.selectors.divfl.equations import (
    dissimilarities,
    greedy,
    refreshed,
)


def points(seed: int, num: int, dimension: int) -> np.ndarray:
    return rng.stream(seed, "points").normal(size=(num, dimension))


def cost(matrix, chosen):
    """The objective: the sum over rows of the least dissimilarity to a chosen column."""
    return matrix[:, chosen].min(axis=1, initial=np.inf).sum()


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
    # Gradients are single numbers. Two of five are seen. Step 1 sees 0 and 3 (costs 24, 28): 0.
    # Step 2 sees, of the rest, 1 and 4: beside 0 they leave 0+0+1+9+10 = 20 and 0+1+2+1+0 = 4: 4.
    # Step 3 sees 2 and 3, which leave 0+1+0+1+0 = 2 and 0+1+2+0+0 = 3: 2.
    line = np.abs(np.subtract.outer([0.0, 1, 2, 10, 11], [0.0, 1, 2, 10, 11]))
    uniforms = np.array(
        [[0.1, 0.5, 0.6, 0.2, 0.7], [0.0, 0.1, 0.8, 0.9, 0.2], [0.0, 0.9, 0.1, 0.2, 0.0]]
    )

    assert greedy(line, 3, np.zeros(5), uniforms, 2).tolist() == [0, 4, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dissimilarities_are_distances(dtype):
    # More parameters than two blocks hold.
    some, others = points(1, 4, 20_000).astype(dtype), points(2, 3, 20_000).astype(dtype)
    exact = cdist(some.astype(np.float64), others.astype(np.float64))

    assert dissimilarities(some, others) == pytest.approx(exact, rel=1e-9)
    assert dissimilarities(some, others, "squared_l2") == pytest.approx(exact**2, rel=1e-9)


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
