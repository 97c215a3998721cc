"""Clients trained at once on a CUDA device, and the benchmark of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fleetsim.learning.kernels.vmap.model_stack import ModelStack
from fleetsim.learning.local.settings import LocalSettings, Precision, SgdSettings
from tests.learning.side_by_side import (
    EVERY_TERM,
    PUBLISHED,
    SMALL,
    Client,
    Fleet,
    assert_equal,
    plain,
    published,
    vector_of,
)

BENCHMARK = Path(__file__).parents[4] / "benchmarks" / "gpu.py"
CLIENTS = [
    Client(7, 2, 0),
    Client(23, 1, 1),
    Client(2, 3, 2),
    Client(14, 3, 0, most_steps=6, tells=True),
]


@pytest.fixture
def cuda() -> Iterator[str]:
    """The device as a run sets it up."""
    if not torch.cuda.is_available():
        pytest.skip("torch sees no cuda device")
    backends = torch.backends.cudnn
    before = backends.deterministic, backends.allow_tf32
    backends.deterministic, backends.allow_tf32 = True, False
    yield "cuda"
    backends.deterministic, backends.allow_tf32 = before


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(SMALL))
def test_cuda_equals_one_client_after_the_other_on_the_cpu_in_float64(cuda: str, name: str) -> None:
    fleet = Fleet(SMALL[name](), CLIENTS)
    expected = fleet.one_by_one(EVERY_TERM)
    found = Fleet(SMALL[name](), CLIENTS, device=cuda).together(EVERY_TERM)

    assert_equal(fleet, found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("index", range(len(PUBLISHED)))
def test_every_network_takes_the_same_step_on_cuda(cuda: str, index: int) -> None:
    module, shape = published(index)
    sgd = SgdSettings(learning_rate=0.01, weight_decay=0.05)
    chosen = LocalSettings(epochs=1, batch_size=6, optimizer=sgd)
    clients = [Client(6), Client(5, base=1)]
    exact = Fleet(module, clients, shape=shape).one_by_one(chosen)
    fleet = Fleet(module, clients, shape=shape, device=cuda)
    found = fleet.together(chosen)

    assert max(fleet.errors(found, exact)) <= 1e-10


@pytest.mark.gpu
@pytest.mark.parametrize("index", range(len(PUBLISHED)))
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_the_same_jobs_give_the_same_bytes_on_cuda(
    cuda: str, index: int, precision: Precision
) -> None:
    module, shape = published(index)
    clients = [Client(11), Client(6, base=1), Client(12, base=2)]
    fleet = Fleet(module, clients, shape=shape, dtype=torch.float32, device=cuda)
    one, other = fleet.together(plain(6), precision), fleet.together(plain(6), precision)

    for first, second in zip(one, other, strict=True):
        assert np.isfinite(vector_of(first)).all()
        assert vector_of(first).tobytes() == vector_of(second).tobytes()
        assert (first.loss, first.loss_rms) == (second.loss, second.loss_rms)


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_mixed_step_is_near_the_exact_one_on_cuda(cuda: str, name: str) -> None:
    clients = [Client(20), Client(11, base=1)]
    fleet = Fleet(SMALL[name](), clients, dtype=torch.float32, device=cuda)
    exact, mixed = fleet.together(plain(20)), fleet.together(plain(20), "mixed")

    assert 1e-5 < max(fleet.errors(mixed, exact)) <= 0.05


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("name", sorted(SMALL))
def test_no_step_waits_for_the_device(
    cuda: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch refuses every wait inside a step."""
    step = ModelStack.step

    def watched(*arguments: object) -> torch.Tensor:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return step(*arguments)  # type: ignore[arg-type]  # passed on as they are
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(ModelStack, "step", watched)
    fleet = Fleet(SMALL[name](), CLIENTS, dtype=torch.float32, device=cuda)

    assert len(fleet.together(EVERY_TERM)) == len(CLIENTS)


def test_the_benchmark_says_so_where_there_is_no_device() -> None:
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, BENCHMARK], env=hidden, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "benchmarks/gpu.py: torch sees no cuda device on this machine\n"
