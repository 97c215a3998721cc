import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Parameters
from fleetsim.learning.aggregation.uploads import refusal_reasons, update_norm

BASE = np.array([1.0, 1.0, 1.0], dtype=np.float32)


@pytest.mark.parametrize("max_update_norm", [None, 1.0])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def sent(*change: float) -> Parameters:
    return BASE + np.array(change, dtype=np.float32)


@pytest.mark.parametrize("max_update_norm", [None, 1.0])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_always_refused(broken: float, max_update_norm: float | None) -> None:
    vectors = [sent(broken, 0.0, broken)]

    messages = refusal_reasons([BASE], vectors, max_update_norm=max_update_norm)
    assert messages == ["2 of its 3 weights are not finite"]


def test_the_norm_of_many_blocks_is_that_of_the_whole_and_finite() -> None:
    """In float32 the square of 3e38 would overflow, and 3e38 - -3e38 even before."""
    base, vector = rng.stream(1, "models").standard_normal((2, 100_001)).astype(np.float32)
    whole = float(np.linalg.norm(vector.astype(np.float64) - base))
    low, high = np.array([[-3e38], [3e38]], dtype=np.float32)

    assert update_norm(base, vector) == pytest.approx(whole, rel=1e-12)
    assert update_norm(low, high) == pytest.approx(6e38)


def test_each_model_is_checked_by_the_norm_of_its_change_from_its_own_base() -> None:
    """Their updates have norms 2, 5, none at all, 3, and |(2, 3, 6)| = 7."""
    bases = [BASE, BASE, BASE, sent(0.0, 3.0, 0.0), BASE]
    changes = [(0.0, 2.0, 0.0), (3.0, 0.0, 4.0), (0.0, np.inf, 0.0), (0.0,), (2.0, 3.0, 6.0)]
    vectors = [sent(*change) for change in changes]
    broken = "1 of its 3 weights are not finite"

    def messages(bound: float | None) -> list[str | None]:
        return refusal_reasons(bases, vectors, max_update_norm=bound)

    assert messages(4.0) == [None, "its update has norm 5, more than 4", broken, None,
        "its update has norm 7, more than 4"]  # fmt: skip
    assert messages(7.0) == messages(None) == [None, None, broken, None, None]
    assert refusal_reasons([BASE], [sent(3e38, -3e38, 0.0)]) == [None]
