import numpy as np
import pytest
import torch
from torch import nn

from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.kernels.batches import Length
from fleetsim.kernels.vmap.vmap_sgd import Footprint, VectorisedKernel, fault, stacks
from fleetsim.learning.models.settings import LstmSettings
from tests.learning.side_by_side import (
    EVERY_TERM,
    ON_CUDA,
    PUBLISHED,
    SMALL,
    TEXT,
    Client,
    Fleet,
    assert_equal,
    built,
    local,
    published,
    vector_of,
)

SLOW = [pytest.mark.slow]
MARKS = dict.fromkeys(("resnet18-group", "resnet18-batch", "shufflenet-v2-group"), SLOW) | {
    name: [*SLOW, pytest.mark.long] for name in ("vgg16-group", "vgg16-batch")
}
NAMES = [
    "-".join(filter(None, (model.kind, getattr(model, "norm", None)))) for model, _ in PUBLISHED
]


@pytest.mark.parametrize(
    "index",
    [pytest.param(index, marks=MARKS.get(name, []), id=name) for index, name in enumerate(NAMES)],
)
def test_every_network_is_trained_as_one_client_after_the_other(index: int) -> None:
    """With unequal sizes, a smaller last batch and running statistics; then one float32 step."""
    module, shape = published(index)
    # Steps are small, because BatchNorm over few values blows rounding up from step to step.
    chosen = local(6, 0.01, momentum=0.9, weight_decay=0.05, mu=0.5)
    exact = Fleet(module, [Client(11), Client(6, base=1)], shape=shape)

    assert_equal(exact, exact.train(VectorisedKernel, chosen), exact.train(Kernel, chosen))

    rounded = Fleet(module, [Client(6), Client(5, base=1)], shape=shape, dtype=torch.float32)

    # One unit that rounds to the other side of a ReLU changes such a small step by a percent.
    results, expected = (rounded.train(kind, chosen) for kind in (VectorisedKernel, Kernel))
    assert max(rounded.errors(results, expected)) <= 0.05


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_CUDA)])
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_mixed_step_is_near_the_exact_one(name: str, device: str) -> None:
    """bfloat16 rounds to 2^-9; a few layers of it stay within 5 % of the update."""
    fleet = Fleet(SMALL[name](), [Client(20), Client(11, base=1)], dtype=torch.float32)
    exact, mixed = (
        fleet.train(VectorisedKernel, local(20), precision=precision, torch_device=device)
        for precision in ("float32", "mixed")
    )

    assert 1e-5 < max(fleet.errors(mixed, exact)) <= 0.05
    for result, reference in zip(mixed, exact, strict=True):
        assert vector_of(result).dtype == np.float32
        assert result.loss == pytest.approx(reference.loss, rel=0.02)


def test_a_stack_is_bounded_by_its_weights_and_activations() -> None:
    """Weights and gradients of 100 byte each, 5 samples of 20 byte: 300 byte a client."""
    size = Footprint(weights_byte=100, sample_byte=20)
    lengths = [Length(n, 1) for n in (6, 20, 7, 6, 20, 6, 6)]

    assert stacks(size, lengths, local(), 3 * 300) == [[1, 4, 2], [0, 3], [5, 6]]
    assert stacks(size, lengths, EVERY_TERM, 4 * 460)[0] == [1, 4, 2, 0]
    assert stacks(size, lengths, local(), 1) == [[1], [4], [2], [0], [3], [5], [6]]


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (lambda: nn.Sequential(nn.LSTM(3, 3)), "layer 0 (LSTM) is recurrent"),
        (lambda: nn.Sequential(nn.GRU(3, 3)), "layer 0 (GRU) is recurrent"),
        (lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1)), "layer 1 (Dropout) draws random"),
        (lambda: nn.Sequential(nn.BatchNorm1d(3, momentum=None)), "count of batches"),
        (lambda: built(LstmSettings(embedding=2, hidden=3, layers=1), TEXT), "layer lstm (LSTM)"),
        (nn.Flatten, "no weights"),
    ],
)
def test_a_network_that_cannot_be_stacked_is_refused_with_the_reason(network, reason):
    module = network()

    assert reason in (fault(module) or "")
    one, label = np.zeros((1, 3), np.float32), np.zeros(1, np.int64)
    data = TrainerData(one, label, [label], one, label)
    with pytest.raises(ValueError, match="cannot be trained at once"):
        VectorisedKernel(module, data, local_settings=local(), seed=5)
