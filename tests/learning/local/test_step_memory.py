import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.fleet.devices.memory import ENGINES
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local import optimizer_settings as optimizers
from fleetsim.learning.local.local_sgd import losses_and_hits
from fleetsim.learning.local.sample_losses import hits, losses
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_memory import step_memory
from fleetsim.learning.models import settings as models
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.text import Gpt2
from fleetsim.validation import measurements, peak_memory
from tests.learning.local.tanh_network import NUM_SAMPLES, data, network, passes, stream
from tests.learning.side_by_side import Array, local, vector_of

LABEL_AND_LOSS = 8 + 4 + 4
"""Bytes at most that a sample adds beside its numbers: its label, and scalars of the loss."""
FROZEN = nn.Sequential(nn.Linear(6, 5).requires_grad_(False), nn.Tanh(), nn.Linear(5, 4))


POOLED = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), nn.Flatten())
KEPT = [
    # 6 float32, 5 units behind the ReLU, 4 logits as their log-softmax.
    (nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)), (6,), 4 * (6 + 5 + 4)),
    # 8 channels of 10 x 10 from 3; of 5 x 5 behind the pool, with one int64 each.
    (POOLED, (3, 10, 10), 4 * (300 + 800) + 8 * 200 + 4 * 200),
    # The first layer keeps nothing.
    (FROZEN, (6,), 4 * (5 + 4)),
]


@pytest.mark.parametrize(("module", "shape", "by_hand"), KEPT)
def test_a_sample_keeps_inputs_of_layers_and_the_softmax(module, shape, by_hand):
    assert 0 <= step_memory(module, shape, local()).sample_byte - by_hand <= LABEL_AND_LOSS


def test_frozen_weights_have_no_gradient_and_no_state_of_the_optimizer() -> None:
    """35 frozen numbers beside 24 trained, each of these with gradient, velocity, anchor."""
    result = step_memory(FROZEN, (6,), local(momentum=0.9, mu=0.1))

    assert result.state_byte == 4 * (35 + 4 * 24)


@pytest.mark.parametrize(
    ("optimizer", "moments"),
    [
        (optimizers.SgdSettings(learning_rate=0.1), 0),
        (optimizers.SgdSettings(learning_rate=0.1, momentum=0.9), 1),
        (optimizers.AdamSettings(learning_rate=0.1), 2),
        (optimizers.AdamWSettings(learning_rate=0.1), 2),
        (optimizers.AdagradSettings(learning_rate=0.1), 1),
        (optimizers.RmsPropSettings(learning_rate=0.1), 1),
        (optimizers.RmsPropSettings(learning_rate=0.1, centered=True), 2),
        (optimizers.RmsPropSettings(learning_rate=0.1, centered=True, momentum=0.9), 3),
    ],
)
@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_the_state_is_a_copy_each_of_weights_gradients_moments_and_anchor(optimizer, moments, mu):
    chosen = LocalSettings(epochs=1, batch_size=16, optimizer=optimizer, proximal_mu=mu)
    state_byte = step_memory(nn.Linear(9, 10), (9,), chosen).state_byte

    assert state_byte == (2 + moments + (mu > 0)) * 4 * 100


def test_running_statistics_are_held_once() -> None:
    module = nn.Sequential(nn.Conv2d(1, 3, 1, bias=False), nn.BatchNorm2d(3), nn.Flatten())
    weights, statistics = 3 + 3 + 3, 3 + 3

    state_byte = step_memory(module, (1, 4, 4), local()).state_byte
    assert state_byte == 2 * 4 * weights + 4 * statistics + 8  # num_batches_tracked is one int64


@pytest.mark.parametrize(
    ("layer", "unfolded"),
    [
        (nn.Conv2d(3, 8, 5, padding=2), 3 * 25 * 100),
        (nn.Conv2d(3, 8, 3, stride=2, padding=1), 3 * 9 * 25),
        (nn.Conv2d(3, 8, 1), 0),
        (nn.Conv2d(3, 3, 5, padding=2, groups=3), 0),
        # Of a frozen convolution none are kept.
        (nn.Sequential(nn.Conv2d(3, 2, 3).requires_grad_(False), nn.Conv2d(2, 2, 1)), 0),
    ],
)
def test_patches_are_laid_out_for_dense_convolutions_over_several_pixels(layer, unfolded):
    module = nn.Sequential(layer, nn.Flatten())

    assert step_memory(module, (3, 10, 10), local()).unfolded_byte == 4 * unfolded


def test_counting_leaves_the_module_as_it_was():
    model = models.ShuffleNetV2Settings(norm="batch")
    module = build_model(model, SampleForm((3, 9, 9), 10), seed=0).eval()
    before = flatten(module)
    step_memory(module, (3, 9, 9), local())

    assert not module.training
    assert flatten(module).tobytes() == before.tobytes()
    assert not any(layer._forward_hooks for layer in module.modules())


def test_attention_keeps_squares_of_the_context() -> None:
    def sample_byte(context: int) -> int:
        form = SampleForm((context,), 11, 11, is_sequence=True)
        module = Gpt2(form, layers=1, heads=2, width=8)
        return step_memory(module, (context,), local()).sample_byte

    short, double, quadruple = (sample_byte(context) for context in (32, 64, 128))
    # Second differences of a + b t + c t^2 leave the squares: 2 heads, the softmax alone.
    squares = (quadruple - double) - 2 * (double - short)

    assert squares >= 4 * 2 * (128**2 - 3 * 64**2 + 2 * 32**2)


def allocated_at_peak(module: nn.Module, samples: torch.Tensor, labels: torch.Tensor) -> int:
    """Bytes at the peak of a step: weights, inputs and whatever torch allocates in it."""
    module.train()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        cross_entropy(module(samples).flatten(0, -2), labels).backward()
    results = record.profiler
    assert results is not None
    changes = [e.nbytes() for e in results.kineto_results.events() if e.name() == "[memory]"]
    outside = sum(weight.nbytes for weight in module.parameters()) + samples.nbytes
    return outside + int(np.cumsum(changes).max())


LSTM = models.LstmSettings(embedding=8, hidden=32, layers=2)
ALLOCATED = [
    (models.LeNet5Settings(), (1, 28, 28), None, 0.35, 0.0),
    (models.FedGraCnnSettings(), (1, 28, 28), None, 0.1, 0.0),
    (models.ShuffleNetV2Settings(norm="batch"), (3, 32, 32), None, 0.0, 0.03),
    (LSTM, (40,), 80, 0.25, 0.25),
]


@pytest.mark.parametrize(("settings", "shape", "words", "below", "above"), ALLOCATED)
def test_torch_allocates_what_the_step_is_said_to_take_or_a_little_more_for_few_layers(
    settings, shape, words, below, above
):
    module = build_model(settings, SampleForm(shape, words or 10, words), seed=0)
    memory = step_memory(module, shape, local())
    samples = torch.zeros(32, *shape, dtype=torch.int64 if words else torch.float32)
    measured = allocated_at_peak(module, samples, torch.zeros(32, dtype=torch.int64))
    estimate = memory.state_byte + 32 * memory.sample_byte

    assert (1 - below) * measured <= estimate <= (1 + above) * measured


@pytest.mark.slow
def test_mnn_on_phones_is_met_within_what_the_page_says():
    readings = measurements.table("mnn-memory")
    errors: Any = np.abs(peak_memory.needed_mib(ENGINES["mnn"]) / readings.resident_mib - 1.0)
    worst = errors.groupby(readings.network).max()
    bounds = {"LeNet": 0.03, "AlexNet": 0.21, "MobileNetV2": 0.08, "SqueezeNet": 0.15}

    assert errors.size == 28
    assert errors.mean() == pytest.approx(0.067, abs=0.005)
    assert (worst < pd.Series({**bounds, "GoogLeNet": 0.07})[worst.index]).all()


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
