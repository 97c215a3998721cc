from __future__ import annotations

import math
import random  # noqa: TID251

import numpy as np
import pytest
import torch

from fleetsim.learning.models.own.global_generators import addressed_generators


def drawn() -> tuple[float, float, float]:
    return float(torch.rand(1)), float(np.random.rand()), random.random()  # noqa: NPY002


def test_equal_seeds_give_equal_draws_of_all_libraries() -> None:
    with addressed_generators(7):
        one = drawn()
    drawn()
    with addressed_generators(7):
        two = drawn()
    with addressed_generators(8):
        other = drawn()

    assert one == two
    assert all(a != b for a, b in zip(one, other, strict=True))


def test_what_is_drawn_outside_does_not_notice_the_block() -> None:
    with addressed_generators(1):
        expected = [drawn(), drawn()]
    with addressed_generators(1):
        found = [drawn()]
        with addressed_generators(9):
            drawn()
        found.append(drawn())

    assert found == expected


def test_generators_are_restored_after_a_fault() -> None:
    with addressed_generators(1):
        expected = [drawn(), drawn()]
    with addressed_generators(1):
        found = [drawn()]
        with pytest.raises(ZeroDivisionError), addressed_generators(9):
            math.fsum([*drawn(), 1 / 0])
        found.append(drawn())

    assert found == expected


@pytest.mark.parametrize(
    ("draw", "library"),
    [
        (lambda: torch.rand(1), "torch"),
        (np.random.rand, "numpy"),
        (random.random, "random"),
        (lambda: torch.rand(1, generator=torch.Generator()), None),
    ],
)
def test_the_library_that_drew_is_known(draw, library: str | None) -> None:
    with addressed_generators(3) as draws:
        draw()

    assert draws.library == library
