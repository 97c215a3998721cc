from typing import Any

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Parameters
from fleetsim.learning.aggregation.privacy import (
    SecAggPlusSettings,
    SecAggSettings,
    SecureAggregation,
)
from fleetsim.learning.aggregation.uploads import refusal_reasons, update_norm


def secagg(num_values: int = 100, **others: Any) -> SecureAggregation:
    settings = SecAggSettings(kind="secagg", **others)
    return SecureAggregation(settings, num_values=num_values, seed=1)


def plus(neighbours: int, *, seed: int = 1, **others: Any) -> SecureAggregation:
    settings = SecAggPlusSettings(kind="secagg-plus", neighbours=neighbours, **others)
    return SecureAggregation(settings, num_values=100, seed=seed)


def test_bytes_by_hand_and_neighbours_that_are_at_most_all_others() -> None:
    """n = 20, k = 4, keys of 10 and shares of 7 byte. Down 4 * 2 * 10 keys and 4 * 2 * 7 shares.
    Up 2 * 10, 4 * 2 * 7, and (4 + 1) * 7 for unmasking. 20 * 255 = 5100 < 2^13, so 13 bit each for
    100 weights and a sum of weights: 1313 bit are 165 byte."""
    model = plus(4, value_bit=8, key_byte=10, share_byte=7)

    assert model.download_byte(20) == 80 + 56
    assert model.upload_byte(20) == 20 + 56 + 35 + 165
    assert plus(64).upload_byte(10) == secagg().upload_byte(10) > plus(4).upload_byte(10)
    assert plus(64).download_byte(10) == secagg().download_byte(10)
    assert secagg().download_byte(1) == 0


@pytest.mark.parametrize(
    ("num_clients", "num_values", "expansion"), [(2**10, 2**20, 1.73), (2**14, 2**24, 1.98)]
)
def test_the_expansion_is_the_published_one(num_clients, num_values, expansion):
    """Bonawitz et al. 2017, abstract: 1.73 x for 2^10 users and 2^20 values of 16 bit, 1.98 x for
    2^14 users and 2^24 values, against sending the values in the clear."""
    model = secagg(num_values)
    moved = model.download_byte(num_clients) + model.upload_byte(num_clients)

    assert round(moved / (2 * num_values), 2) == expansion


def test_a_sum_of_the_largest_values_fits() -> None:
    """n (2^b - 1) must be below 2^B, and not below 2^(B - 1)."""
    for cohort in (1, 2, 3, 255, 256, 257):
        largest = cohort * (2**16 - 1)
        width = secagg().value_bit(cohort)
        assert 2 ** (width - 1) <= largest < 2**width


def test_secagg_fails_with_half_of_the_cohort_and_plus_with_half_of_any_neighbours() -> None:
    """t = floor(10 / 2) + 1 = 6 of 10; floor(.8 * 10) + 1 = 9. With k = 2, t = 2 any client that is
    lost takes a neighbour from two others."""
    everybody, strict = list(range(30, 40)), secagg(threshold_fraction=0.8)

    assert secagg().is_unmasked(everybody, everybody[:6], 1)
    assert not secagg().is_unmasked(everybody, everybody[4:9], 1)
    assert strict.is_unmasked(everybody, everybody[:9], 1)
    assert not strict.is_unmasked(everybody, everybody[:8], 1)
    assert plus(2).is_unmasked(everybody, everybody, 1)
    assert not any(plus(2).is_unmasked(everybody, everybody[1:], r) for r in range(20))


def test_the_graph_is_drawn_for_each_round_and_seed() -> None:
    """k = 4, t = 3: two lost clients break a round if both are neighbours of one client, which
    they are within 4 steps on the ring: for 8 of 19 places of the second, 42 %."""
    everybody, model = list(range(20)), plus(4)
    rounds = [model.is_unmasked(everybody, everybody[2:], number) for number in range(400)]

    share = 1 - np.mean(rounds)
    # The standard error is 2.5 %.
    assert share == pytest.approx(8 / 19, abs=0.1)
    assert rounds == [plus(4).is_unmasked(everybody, everybody[2:], r) for r in range(400)]
    assert rounds != [plus(4, seed=2).is_unmasked(everybody, everybody[2:], r) for r in range(400)]


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
