import pytest
import torch
from torch import nn

from fleetsim.user.models.counted_operations import counting


def _train_step(module, inputs, learning_rate=0.1):
    optimizer = torch.optim.SGD(module.parameters(), lr=learning_rate)
    out = module(inputs)
    (out[0] if isinstance(out, tuple) else out).square().sum().backward()
    optimizer.step()


def _counted(module, inputs):
    with counting() as count:
        _train_step(module, inputs)
    return count.work(0)


def test_a_perceptron_multiplies_each_weight_three_times_but_for_the_inputs_gradient():
    layers = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))

    work = _counted(layers, torch.ones(8, 10))

    forward, second_layer = 2 * 8 * (10 * 20 + 20 * 3), 2 * 8 * 20 * 3
    assert work.flop == (("gemm", 2 * forward + second_layer),)
    assert (work.launches, work.batches, work.updated_parameters) == (5, 1, 200 + 20 + 60 + 3)


PASSES = {
    "a depthwise convolution is a class of its own": (
        nn.Sequential(nn.Conv2d(3, 6, 5), nn.Conv2d(6, 6, 3, groups=6)), (2, 3, 16, 16),
        {"conv": 2 * 2 * 2 * 6 * 12 * 12 * 3 * 25, "depthwise": 3 * 2 * 2 * 6 * 10 * 10 * 9}),
    "a transposed convolution meets a kernel at each input": (
        nn.ConvTranspose2d(4, 2, 3, stride=2), (1, 4, 5, 5), {"conv": 2 * (2 * 25 * 4 * 2 * 9)}),
    "a recurrent network multiplies all its weights at every step": (
        nn.LSTM(5, 7, num_layers=2, batch_first=True), (4, 9, 5),
        {"rnn": 3 * 2 * 4 * 9 * (4 * 7 * (5 + 7) + 4 * 7 * (7 + 7))}),
}  # fmt: skip


@pytest.mark.parametrize("case", PASSES)
def test_both_passes_by_hand(case):
    module, shape, flop = PASSES[case]

    assert dict(_counted(module, torch.ones(shape)).flop) == flop


def test_batches_are_outermost_forward_passes():
    module = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    with counting() as count, torch.no_grad():
        for _ in range(3):
            module(torch.ones(1, 2))

    assert count.work(0).batches == 3


@pytest.mark.parametrize(
    "layer", [nn.Linear(6, 6), nn.LSTM(6, 4), nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)]
)
def test_what_is_counted_is_computed_the_same(layer):
    inputs = torch.linspace(-1.0, 1.0, 5 * 3 * 6).reshape(5, 3, 6)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    _train_step(layer, inputs)
    alone = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.load_state_dict(before)
    layer.zero_grad()

    _counted(layer, inputs)

    assert all(torch.equal(value, alone[name]) for name, value in layer.state_dict().items())


def test_hooks_are_gone_after_the_block():
    with counting() as count:
        pass
    _train_step(nn.Linear(2, 2), torch.ones(1, 2))

    assert (count.batches, count.updated_parameters, count.launches) == (0, 0, 0)
