import random  # noqa: TID251  # the generators under test

import numpy as np
import torch

from fleetsim.flower.generators import seeded


def _draws():
    return random.random(), np.random.random(), torch.rand(1).item()  # noqa: NPY002


def test_an_address_determines_the_draws_of_all_three_generators():
    with seeded(1, "test", 2):
        first = _draws()
    with seeded(1, "test", 2):
        again = _draws()
    with seeded(1, "test", 3):
        others = _draws()

    assert first == again
    assert all(one != other for one, other in zip(first, others, strict=True))


def test_draws_of_a_block_shift_none_after_it():
    with seeded(1, "outer"):
        alone = [_draws(), _draws()]
    with seeded(1, "outer"):
        with_block = [_draws()]
        with seeded(1, "inner"):
            _draws()
        with_block.append(_draws())

    assert with_block == alone
