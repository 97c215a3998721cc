import math

import numpy as np
import pytest
import torch
from torch import nn

from fleetsim.learning.local import local_sgd
from fleetsim.learning.models.dropout import Dropout, dropping_out
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import TwoNNSettings
from tests.learning.side_by_side import Array, local, vector_of

HALF = TwoNNSettings(hidden=(64, 30), dropout=0.5)
PLAIN = TwoNNSettings(hidden=(64, 30))
LOCAL = local(8)


def module(settings: TwoNNSettings = HALF) -> nn.Module:
    return build_model(settings, input_shape=(1, 5, 5), num_classes=3, seed=1)


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(20, 1, 5, 5, generator=generator)
    return inputs, torch.arange(20) % 3


def trained(net: nn.Module, seed: int, epochs: int = 2, most_steps: int | None = None) -> Array:
    stream = np.random.default_rng(seed)
    how = local_sgd.Passes(epochs=epochs, stream=stream, most_steps=most_steps)
    return vector_of(local_sgd.train(net, flatten(module()), *samples(), LOCAL, how))


def test_each_step_leaves_other_units_out_at_the_rate_asked_and_scales_the_others():
    layer, ones = nn.Sequential(Dropout(0.2), nn.Linear(1, 1)), torch.ones(100_000)
    with dropping_out(layer, np.random.default_rng(3)):
        out, again = layer[0](ones), layer[0](ones)

    assert not torch.equal(out, again)
    assert set(out.tolist()) == {0.0, 1.25}
    # Four standard deviations of a share of 100,000 draws.
    assert float((out == 0).double().mean()) == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / 1e5))
    assert torch.equal(layer[0](ones), ones)


def test_masks_are_the_jobs_own_and_no_others():
    net = module()
    first = trained(net, 7)
    torch.manual_seed(99)  # noqa: TID251 - of no effect
    again, other = trained(net, 7), trained(net, 8)

    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_training_that_is_cut_short_is_the_beginning_of_the_whole():
    """An epoch of 20 samples in batches of 8 has three steps."""
    net = module()

    assert trained(net, 7, epochs=1).tobytes() == trained(net, 7, most_steps=3).tobytes()


def test_gradients_and_evaluations_are_of_the_whole_network():
    base = flatten(module())
    for compute in (local_sgd.gradient, local_sgd.evaluate):
        with_dropout = compute(module(), base, *samples())
        without = compute(module(PLAIN), base, *samples())
        assert with_dropout.loss == without.loss
        if without.vector is not None and with_dropout.vector is not None:
            assert with_dropout.vector.tobytes() == without.vector.tobytes()
