from typing import Any

import numpy as np
import pytest
import torch

from fleetsim.contracts import JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.vmap.model_stack import ModelStack
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import Precision
from tests.learning.side_by_side import (
    EVERY_TERM,
    ON_CUDA,
    PUBLISHED,
    SMALL,
    Client,
    Fleet,
    all_same,
    assert_equal,
    local,
    published,
    vector_of,
)

CLIENTS = [
    Client(7, 2, 0),
    Client(23, 1, 1),
    Client(2, 3, 2),
    Client(14, 3, 0, most_steps=6, tells=True),
]


pytestmark = ON_CUDA


def on_cuda(fleet: Fleet, chosen: LocalSettings, **options: Any) -> list[JobResult]:
    return fleet.train(VectorisedKernel, chosen, torch_device="cuda", **options)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_cuda_equals_one_client_after_the_other_on_the_cpu_in_float64(name: str) -> None:
    fleet = Fleet(SMALL[name](), CLIENTS)

    assert_equal(fleet, on_cuda(fleet, EVERY_TERM), fleet.train(Kernel, EVERY_TERM))


@pytest.mark.parametrize("index", range(len(PUBLISHED)))
def test_every_network_takes_the_same_step_on_cuda(index: int) -> None:
    module, shape = published(index)
    chosen = local(6, 0.01, weight_decay=0.05)
    fleet = Fleet(module, [Client(6), Client(5, base=1)], shape=shape)

    assert max(fleet.errors(on_cuda(fleet, chosen), fleet.train(Kernel, chosen))) <= 1e-10


@pytest.mark.parametrize("index", range(len(PUBLISHED)))
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_the_same_jobs_give_the_same_bytes_on_cuda(index: int, precision: Precision) -> None:
    module, shape = published(index)
    clients = [Client(11), Client(6, base=1), Client(12, base=2)]
    fleet = Fleet(module, clients, shape=shape, dtype=torch.float32)

    one, other = (on_cuda(fleet, local(6), precision=precision) for _ in range(2))
    assert all_same(one, other)
    assert all(np.isfinite(vector_of(result)).all() for result in one)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("name", sorted(SMALL))
def test_no_step_waits_for_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses every wait inside a step."""
    step = ModelStack.step

    def watched(*arguments: object, **more: object) -> torch.Tensor:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return step(*arguments, **more)  # type: ignore[arg-type]  # passed on as they are
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(ModelStack, "step", watched)
    fleet = Fleet(SMALL[name](), CLIENTS, dtype=torch.float32)

    assert len(on_cuda(fleet, EVERY_TERM)) == len(CLIENTS)
