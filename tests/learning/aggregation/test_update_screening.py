import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Parameters
from fleetsim.learning.aggregation.update_screening import refusal_reasons, update_norm

BASE = np.array([1.0, 1.0, 1.0], dtype=np.float32)


def sent(*change: float) -> Parameters:
    return BASE + np.array(change, dtype=np.float32)


def why(base: Parameters, vector: Parameters, max_update_norm: float | None = None) -> str | None:
    """Return the message about one model."""
    (message,) = refusal_reasons([base], [vector], max_update_norm=max_update_norm)
    return message


@pytest.mark.parametrize("max_update_norm", [None, 1.0])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_always_refused(broken: float, max_update_norm: float | None) -> None:
    message = why(BASE, sent(broken, 0.0, broken), max_update_norm)

    assert message == "2 of its 3 weights are not finite"


def test_the_norm_of_the_update_decides_not_that_of_the_model() -> None:
    """|(2, 3, 6)| = 7; without a bound every finite update is taken."""
    assert why(BASE, sent(3e38, -3e38, 0.0)) is None
    assert why(BASE, sent(2.0, 3.0, 6.0), max_update_norm=7.0) is None
    assert why(BASE, sent(2.0, 3.0, 6.0), max_update_norm=6.999) == (
        "its update has norm 7, more than 6.999"
    )


def test_a_huge_update_has_a_finite_norm() -> None:
    """In float32 the square of 3e38 would overflow, and 3e38 - -3e38 even before."""
    low, high = np.full((2, 1), 3e38, dtype=np.float32) * [[-1.0], [1.0]]

    assert update_norm(low.astype(np.float32), high.astype(np.float32)) == pytest.approx(6e38)


def test_the_norm_of_many_blocks_is_that_of_the_whole() -> None:
    base, vector = rng.stream(1, "models").standard_normal((2, 100_001)).astype(np.float32)
    whole = float(np.linalg.norm(vector.astype(np.float64) - base))

    assert update_norm(base, vector) == pytest.approx(whole, rel=1e-12)


def test_of_several_models_each_is_checked_against_its_own_base() -> None:
    """Their updates have norms 2, 5, none at all, and 3."""
    bases = [BASE, BASE, BASE, sent(0.0, 3.0, 0.0)]
    vectors = [sent(0.0, 2.0, 0.0), sent(3.0, 0.0, 4.0), sent(0.0, np.inf, 0.0), BASE]

    assert refusal_reasons(bases, vectors, max_update_norm=4.0) == [
        None,
        "its update has norm 5, more than 4",
        "1 of its 3 weights are not finite",
        None,
    ]
