import math
from functools import partial

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.fading import (
    BlockFading,
    Law,
    nakagami,
    no_fading,
    rayleigh,
    rician,
)

DOWN, UP = Direction.DOWN, Direction.UP
LAWS: list[Law] = [
    no_fading,
    rayleigh,
    partial(rician, k=3.0),
    partial(nakagami, m=0.5),
    partial(nakagami, m=3.0),
]


def uniform(client: int, block: int, word: int) -> float:
    return (int(rng.words_of_many(4, "fading", [client], [block], 1)[0, 0, word]) >> 11) / 2.0**53


def one_gain(law: Law, client: int, direction: Direction, block: int) -> float:
    fading = BlockFading(4, 1.0, law)
    return float(fading.gains(np.array([client]), direction, np.array([block]), 1)[0, 0])


@pytest.mark.parametrize(("direction", "first", "second"), [(DOWN, 0, 2), (UP, 1, 3)])
def test_a_rician_gain_is_a_line_of_sight_plus_a_scattered_wave(direction, first, second):
    length = math.sqrt(-math.log(1.0 - uniform(2, 9, first)))
    angle = 2.0 * math.pi * uniform(2, 9, second)
    wave = complex(length * math.cos(angle), length * math.sin(angle))
    by_hand = abs(math.sqrt(3.0) + wave) ** 2 / 4.0

    assert one_gain(partial(rician, k=3.0), 2, direction, 9) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(("direction", "word"), [(DOWN, 0), (UP, 1)])
def test_a_nakagami_gain_inverts_the_gamma_distribution(direction, word):
    gain = one_gain(partial(nakagami, m=2.0), 2, direction, 9)
    below = 1.0 - math.exp(-2.0 * gain) * (1.0 + 2.0 * gain)  # Erlang, two stages

    assert below == pytest.approx(uniform(2, 9, word), rel=1e-9)


def test_the_extreme_words_give_gains_that_are_finite_and_not_negative():
    edge = np.array([[0, 0, 0, 0], [2**64 - 1] * 4, [0, 0, 2**63, 2**63]], dtype=np.uint64)

    extremes: list[Law] = [partial(rician, k=0.0), partial(rician, k=1e6), partial(nakagami, m=1e3)]
    for law in LAWS + extremes:
        for direction in (DOWN, UP):
            gains = law(edge, direction)
            assert np.isfinite(gains).all()
            assert (gains >= 0.0).all()


def test_a_wave_that_cancels_the_line_of_sight_leaves_nothing():
    """Angle half a turn, power K: rounding must not leave less than nothing."""
    for k in (0.3, 1.0, 3.0, 7.7):
        share = 1.0 - math.exp(-k)
        word = np.uint64(int(share * 2**53) << 11)
        words = np.array([[word, word, 2**63, 2**63]], dtype=np.uint64)

        assert 0.0 <= rician(words, UP, k)[0] < 1e-14
