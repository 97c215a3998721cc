import math
import random  # noqa: TID251
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from fleetsim.learning.global_generators import addressed, restored, seed
from tests.learning.side_by_side import ON_CUDA


def drawn() -> tuple[float, float, float]:
    return float(torch.rand(1)), float(np.random.rand()), random.random()  # noqa: NPY002


def test_equal_addresses_give_equal_draws_of_all_libraries_and_others_other_ones() -> None:
    def draws_at(*address: Any) -> tuple[float, float, float]:
        with addressed(*address):
            return drawn()

    one = draws_at(7, "test")
    drawn()
    others = draws_at(8, "test"), draws_at(7, "another use"), draws_at(7, "test", 0)

    assert draws_at(7, "test") == one
    for other in others:
        assert all(a != b for a, b in zip(one, other, strict=True))


def test_both_halves_of_an_address_s_seed_reach_numpy(monkeypatch) -> None:
    results = []
    for number in (5, 5 + 2**32):
        monkeypatch.setattr("fleetsim.rng.torch_seed", lambda *_, number=number: number)
        with restored():
            seed(0, "test")
            results.append(drawn())
    of_torch, of_numpy, of_random = zip(*results, strict=True)

    assert of_numpy[0] != of_numpy[1]
    assert of_random[0] != of_random[1]
    assert of_torch[0] == of_torch[1], "torch's own generator of the CPU takes 32 bits alone"


def drawn_on_cuda() -> float:
    return float(torch.rand(1, device="cuda"))


@pytest.mark.parametrize("draw", [drawn, pytest.param(drawn_on_cuda, marks=ON_CUDA)])
def test_what_is_drawn_outside_does_not_notice_the_block_nor_its_fault(draw) -> None:
    on_cuda = draw is drawn_on_cuda
    with addressed(1, "test", on_cuda=on_cuda):
        expected = [draw(), draw(), draw()]
    with addressed(1, "test", on_cuda=on_cuda):
        results = [draw()]
        with addressed(9, "test", on_cuda=on_cuda) as watch:
            draw()
        results.append(draw())
        with pytest.raises(ZeroDivisionError), addressed(9, "test", on_cuda=on_cuda):
            math.fsum([draw() is None, 1 / 0])
        results.append(draw())

    assert results == expected
    assert watch.library == "torch"


@pytest.mark.parametrize(
    ("draw", "libraries"),
    [
        (lambda: torch.rand(1), ["torch"]),
        (np.random.rand, ["numpy"]),
        (random.random, ["random"]),
        (drawn, ["torch", "numpy", "random"]),
        (lambda: torch.manual_seed(11), ["torch"]),  # noqa: TID251
        (lambda: np.random.seed(11), ["numpy"]),  # noqa: NPY002, TID251
        (lambda: random.seed(11), ["random"]),
        (lambda: torch.rand(1, generator=torch.Generator()), []),
    ],
)
def test_libraries_that_drew_or_were_seeded_are_told_torch_first(draw, libraries) -> None:
    with addressed(3, "test") as watch:
        draw()
        result = watch.drawn()

    assert result == libraries
    assert watch.library == next(iter(libraries), None)


def test_torch_is_not_imported_for_the_sake_of_its_generator() -> None:
    program = (
        "import random, sys\n"
        "from fleetsim.learning.global_generators import addressed\n"
        "with addressed(1, 'test') as draws: random.random()\n"
        "print(draws.library, 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert done.stdout == "random False\n", done.stderr
