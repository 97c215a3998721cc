import math

import numpy as np
import pytest
import torch
from torch import nn

from fleetsim import rng
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.local_sgd import losses_and_hits
from fleetsim.learning.local.sample_losses import hits, losses
from fleetsim.learning.models.flat_vector import flatten
from tests.learning.local.tanh_network import NUM_SAMPLES, data, network, passes, stream
from tests.learning.side_by_side import Array, local, vector_of


def test_the_first_epochs_of_a_longer_training_are_the_shorter_one() -> None:
    """So a client that goes on from a probe has trained what the whole training begins with."""
    short, long = (local_sgd.orders(stream(), epochs, NUM_SAMPLES) for epochs in (2, 5))

    assert long[:2].tolist() == short.tolist()


def test_the_gradient_is_the_derivative_of_the_mean_loss() -> None:
    """Against central differences along random directions."""
    module, base = network()
    inputs, labels = data()
    gradient = local_sgd.gradient(module, base, inputs, labels)
    direction: Array = rng.stream(3, "test/direction").normal(size=base.size)

    def loss_at(step: float) -> float:
        there: Array = base + step * direction
        loss = local_sgd.evaluate(module, there, inputs, labels).loss
        assert loss is not None
        return loss

    by_difference = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5
    assert vector_of(gradient) @ direction == pytest.approx(by_difference, rel=1e-7)
    assert gradient.loss == pytest.approx(loss_at(0.0), rel=1e-12)


def test_chunks_do_not_change_gradient_and_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    module, base = network()
    inputs, labels = data()
    whole = local_sgd.gradient(module, base, inputs, labels)
    whole_losses = local_sgd.evaluate(module, base, inputs, labels)
    monkeypatch.setattr(local_sgd, "CHUNK", 4)

    chunked = local_sgd.gradient(module, base, inputs, labels)
    chunked_losses = local_sgd.evaluate(module, base, inputs, labels)

    np.testing.assert_allclose(vector_of(chunked), vector_of(whole), rtol=1e-12)
    assert chunked_losses.loss == pytest.approx(whole_losses.loss, rel=1e-14)
    assert chunked_losses.loss_rms == pytest.approx(whole_losses.loss_rms, rel=1e-14)


def test_accuracy_is_the_fraction_of_largest_logits_that_hit() -> None:
    module = nn.Linear(2, 2, bias=False)
    identity = np.array([1, 0, 0, 1], dtype=np.float32)
    inputs = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0], [0.0, 5.0]])
    labels = torch.tensor([0, 1, 1, 1])
    misses = [1, 1, -3, 5]

    result = local_sgd.evaluate(module, identity, inputs, labels)

    assert result.accuracy == 0.75
    assert result.loss == pytest.approx(np.mean([math.log1p(math.exp(-m)) for m in misses]))


def test_batch_statistics_move_in_training_and_rest_in_evaluation() -> None:
    module = nn.Sequential(nn.BatchNorm1d(1, momentum=0.5), nn.Linear(1, 2)).double()
    base = flatten(module)
    inputs, labels = torch.full((4, 1), 6.0).double(), torch.zeros(4, dtype=torch.int64)
    local_sgd.evaluate(module, base, inputs, labels)
    rested = flatten(module)

    result = local_sgd.train(module, base, inputs, labels, local(4), passes())

    np.testing.assert_array_equal(rested, base)
    assert vector_of(result)[2] == 3.0  # running mean: half of 0 and half of 6
    assert vector_of(local_sgd.gradient(module, base, inputs, labels))[2] == 0.0


def test_sequences_are_evaluated_few_at_a_time_with_equal_results(monkeypatch):
    module = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5))
    tokens = torch.arange(70).view(10, 7) % 5
    base = flatten(module)
    whole = losses_and_hits(module, base, tokens, tokens)
    sizes: list[int] = []
    module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    monkeypatch.setattr(local_sgd, "POSITIONS", 21)
    monkeypatch.setattr(local_sgd, "CHUNK", 4)
    parts = losses_and_hits(module, base, tokens, tokens)

    assert sizes == [3, 1, 3, 1, 2]
    for one, other in zip(whole, parts, strict=True):
        assert one.shape == (10,)
        torch.testing.assert_close(one, other)


def test_a_sequence_counts_by_the_mean_over_its_positions() -> None:
    """Logits 0 and log 3: probability 3/4 of the right class, 1/4 of the wrong one."""
    logits = torch.tensor([[[0.0, math.log(3)], [0.0, math.log(3)]]])
    labels = torch.tensor([[1, 0]])

    assert losses(logits, labels).item() == pytest.approx(-(math.log(0.75) + math.log(0.25)) / 2)
    assert hits(logits, labels).tolist() == [0.5]
