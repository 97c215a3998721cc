import math
import random  # noqa: TID251
import subprocess
import sys

import numpy as np
import pytest
import torch

from fleetsim.learning.global_generators import addressed, restored, seed


def drawn() -> tuple[float, float, float]:
    return float(torch.rand(1)), float(np.random.rand()), random.random()  # noqa: NPY002


def test_equal_seeds_give_equal_draws_of_all_libraries() -> None:
    with addressed(7, "test"):
        one = drawn()
    drawn()
    with addressed(7, "test"):
        two = drawn()
    with addressed(8, "test"):
        other_seed = drawn()
    with addressed(7, "another use"):
        other_use = drawn()
    with addressed(7, "test", 0):
        other_index = drawn()

    assert one == two
    for other in (other_seed, other_use, other_index):
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


def test_what_is_drawn_outside_does_not_notice_the_block_nor_its_fault() -> None:
    with addressed(1, "test"):
        expected = [drawn(), drawn(), drawn()]
    with addressed(1, "test"):
        result = [drawn()]
        with addressed(9, "test"):
            drawn()
        result.append(drawn())
        with pytest.raises(ZeroDivisionError), addressed(9, "test"):
            math.fsum([*drawn(), 1 / 0])
        result.append(drawn())

    assert result == expected


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_s_generators_are_seeded_and_restored_where_asked() -> None:
    def drawn_there() -> float:
        return float(torch.rand(1, device="cuda"))

    with addressed(1, "test", on_cuda=True):
        expected = [drawn_there(), drawn_there()]
    with addressed(1, "test", on_cuda=True):
        result = [drawn_there()]
        with addressed(2, "test", on_cuda=True) as draws:
            drawn_there()
        result.append(drawn_there())

    assert result == expected
    assert draws.library == "torch"
