import numpy as np
import pytest

from fleetsim.selectors.afl.equations import choose


@pytest.mark.parametrize(("exponential", "first"), [(2.7, 1), (2.8, 0)])
def test_large_valuations_do_not_overflow(exponential, first):
    """The second arrives at E / e against 1: first if E < e."""
    shares = {"alpha_1": 0.0, "alpha_2": 1.0, "alpha_3": 0.0}
    draws = {"uniforms": np.ones(2), "keys": np.arange(2), "exponentials": [1.0, exponential]}
    drawn = {name: np.array(each, dtype=np.float64) for name, each in draws.items()}

    assert choose(np.array([5e4, 5e4 + 1.0]), 1, **shares, **drawn).tolist() == [first]
