import math
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.local_sgd import losses_and_hits
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.sample_losses import hits, losses
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten, load_flat

Array = NDArray[Any]

NUM_SAMPLES, NUM_FEATURES, NUM_CLASSES = 23, 6, 4


def settings(
    learning_rate: float = 0.1,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    mu: float = 0.0,
    batch_size: int = 5,
) -> LocalSettings:
    sgd = SgdSettings(learning_rate=learning_rate, momentum=momentum, weight_decay=weight_decay)
    return LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd, proximal_mu=mu)


def stream() -> np.random.Generator:
    return rng.stream(3, "test/local")


def data() -> tuple[Tensor, Tensor]:
    draw = rng.stream(3, "test/data")
    inputs = torch.from_numpy(draw.normal(size=(NUM_SAMPLES, NUM_FEATURES)))
    labels = torch.from_numpy(draw.integers(NUM_CLASSES, size=NUM_SAMPLES))
    return inputs, labels


def vector_of(result: JobResult) -> Array:
    assert result.vector is not None
    return result.vector


def network() -> tuple[nn.Sequential, Array]:
    """A float64 network with deterministic weights."""
    module = nn.Sequential(nn.Linear(NUM_FEATURES, 8), nn.Tanh(), nn.Linear(8, NUM_CLASSES))
    module.double()
    weights: Array = rng.stream(3, "test/weights").normal(size=flatten(module).size) * 0.3
    load_flat(module, weights)
    return module, weights


def passes(epochs: int = 1, **more: Any) -> local_sgd.Passes:
    return local_sgd.Passes(epochs=epochs, stream=stream(), **more)


def trained(chosen: LocalSettings, epochs: int, **more: Any) -> JobResult:
    """Return what the network becomes on the samples."""
    module, base = network()
    return local_sgd.train(module, base, *data(), chosen, passes(epochs, **more))


def with_torch_optimizer(chosen: LocalSettings, epochs: int, *, most_steps: int = 10**9) -> Array:
    """The same training with torch's own SGD and the proximal term as part of the loss."""
    module, _ = network()
    inputs, labels = data()
    permutations = stream()
    sgd = chosen.plain_sgd()
    optimizer = torch.optim.SGD(
        module.parameters(),
        lr=sgd.learning_rate,
        momentum=sgd.momentum,
        weight_decay=sgd.weight_decay,
    )
    anchors = [parameter.detach().clone() for parameter in module.parameters()]
    for _ in range(epochs):
        order = np.argsort(permutations.bit_generator.random_raw(len(labels)))
        for start in range(0, len(labels), chosen.batch_size):
            if most_steps == 0:
                return flatten(module)
            most_steps -= 1
            rows = order[start : start + chosen.batch_size]
            optimizer.zero_grad()
            distances = [
                ((parameter - anchor) ** 2).sum()
                for parameter, anchor in zip(module.parameters(), anchors, strict=True)
            ]
            loss = cross_entropy(module(inputs[rows]), labels[rows])
            torch.autograd.backward(loss + chosen.proximal_mu / 2 * torch.stack(distances).sum())
            optimizer.step()
    return flatten(module)


@pytest.mark.parametrize(
    "chosen",
    [
        settings(),
        settings(momentum=0.9),
        settings(weight_decay=0.05),
        settings(mu=0.5),
        settings(momentum=0.7, weight_decay=0.01, mu=0.2, batch_size=7),
        settings(batch_size=100),
    ],
)
def test_training_equals_torchs_own_optimizer_in_float64(chosen: LocalSettings) -> None:
    found = vector_of(trained(chosen, 4))

    assert found.dtype == np.float64
    np.testing.assert_allclose(found, with_torch_optimizer(chosen, 4), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("most_steps", [1, 4, 5, 6, 19, 20, 21])
def test_a_training_that_is_stopped_equals_torchs_own_optimizer_up_to_there(
    most_steps: int,
) -> None:
    """Five steps an epoch, of 5, 5, 5, 5 and 3 samples; twenty in all."""
    chosen = settings(momentum=0.7, weight_decay=0.01, mu=0.2)

    found = trained(chosen, 4, most_steps=most_steps)

    expected = with_torch_optimizer(chosen, 4, most_steps=most_steps)
    np.testing.assert_allclose(vector_of(found), expected, rtol=1e-12, atol=1e-14)
    assert found.num_samples == NUM_SAMPLES


MISS = 1 / (1 + math.exp(1.8))
"""Probability of the wrong class after the first step: the logits differ by 3 * .6 = 1.8."""


@pytest.mark.parametrize(
    ("chosen", "epochs", "weight"),
    [
        # At w = 0 both classes have probability 1/2, so the gradient of sample (x, 0) is -+x/2.
        (settings(learning_rate=0.2), 1, 0.3),
        # The pull in step 2 is mu * w_1, w_1 = (.3, -.3).
        (settings(learning_rate=0.2, mu=0.5), 2, 0.3 + 0.2 * (3 * MISS - 0.5 * 0.3)),
    ],
    ids=["one step", "proximal"],
)
def test_steps_of_logistic_regression_by_hand(
    chosen: LocalSettings, epochs: int, weight: float
) -> None:
    module = nn.Linear(1, 2, bias=False).double()
    base: Array = np.zeros(2)
    samples = torch.tensor([[3.0]]).double(), torch.tensor([0])

    found = local_sgd.train(module, base, *samples, chosen, passes(epochs))

    np.testing.assert_allclose(vector_of(found), [weight, -weight], rtol=1e-14)
    if epochs == 1:
        assert found.loss == pytest.approx(math.log(2))


def test_momentum_starts_from_nothing_in_every_task() -> None:
    module, base = network()
    first, again = (
        local_sgd.train(module, base, *data(), settings(momentum=0.9), passes(2)) for _ in range(2)
    )

    assert vector_of(again).tobytes() == vector_of(first).tobytes()


def test_the_base_is_never_changed() -> None:
    module, base = network()
    before = base.copy()
    local_sgd.train(module, base, *data(), settings(), passes())
    local_sgd.gradient(module, base, *data())

    np.testing.assert_array_equal(base, before)


class Spy(nn.Module):
    """A linear layer that remembers the first feature of every batch it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)
        self.batches: list[list[float]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.batches.append(inputs[:, 0].tolist())
        logits: Tensor = self.layer(inputs)
        return logits


def test_every_epoch_visits_every_sample_once_in_a_new_order_and_keeps_small_batches() -> None:
    spy = Spy()
    inputs, labels = torch.arange(7.0).reshape(7, 1), torch.zeros(7, dtype=torch.int64)
    local_sgd.train(spy, flatten(spy), inputs, labels, settings(batch_size=3), passes(2))

    assert [len(batch) for batch in spy.batches] == [3, 3, 1, 3, 3, 1]
    first, second = list(chain(*spy.batches[:3])), list(chain(*spy.batches[3:]))
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second


def test_losses_are_those_of_the_last_epoch_before_each_step() -> None:
    """Full batches: the loss of epoch 2 is the loss of the model that epoch 1 made."""
    module, base = network()
    inputs, labels = data()
    chosen = settings(batch_size=NUM_SAMPLES)
    middle = local_sgd.train(module, base, inputs, labels, chosen, passes())
    expected = cross_entropy(module(inputs), labels, reduction="none").detach().numpy()

    found = trained(chosen, 2)

    assert not np.array_equal(vector_of(found), vector_of(middle))
    assert found.num_samples == NUM_SAMPLES
    assert found.loss == pytest.approx(expected.mean(), rel=1e-12)
    assert found.loss_rms == pytest.approx(np.sqrt((expected**2).mean()), rel=1e-12)


def test_every_epoch_tells_what_it_lost_before_each_step() -> None:
    """Full batches: epoch e loses what the model that e - 1 epochs made loses on the samples."""
    module, base = network()
    chosen = settings(batch_size=NUM_SAMPLES, momentum=0.9)
    made = [base, *(vector_of(trained(chosen, epochs)) for epochs in (1, 2))]
    expected = [local_sgd.evaluate(module, model, *data()).loss for model in made]

    found = trained(chosen, 3, tells_epoch_losses=True)

    assert found.epoch_losses is not None
    assert found.epoch_losses == pytest.approx(expected, rel=1e-12)
    assert found.epoch_losses[-1] == found.loss


@pytest.mark.parametrize(
    ("most_steps", "sizes"), [(1, [5]), (5, [23]), (8, [23, 15]), (99, [23] * 4)]
)
def test_epochs_of_a_training_that_is_stopped_tell_what_they_lost_as_far_as_they_got(
    most_steps: int, sizes: list[int]
) -> None:
    """Five steps an epoch, of 5, 5, 5, 5 and 3 samples; a network that does not move."""
    module, _ = network()
    inputs, labels = data()
    each = cross_entropy(module(inputs), labels, reduction="none").detach().numpy()
    drawn = local_sgd.orders(stream(), 4, NUM_SAMPLES)
    expected = [each[order[:size]].mean() for order, size in zip(drawn, sizes, strict=False)]

    found = trained(
        settings(learning_rate=1e-30), 4, most_steps=most_steps, tells_epoch_losses=True
    )

    assert found.epoch_losses == pytest.approx(expected, rel=1e-12)


def test_who_is_not_asked_tells_of_no_epoch_and_trains_the_same() -> None:
    silent, telling = (trained(settings(), 2, tells_epoch_losses=tells) for tells in (False, True))

    assert silent.epoch_losses is None
    assert telling.epoch_losses is not None
    assert vector_of(silent).tobytes() == vector_of(telling).tobytes()
    assert (silent.loss, silent.loss_rms) == (telling.loss, telling.loss_rms)


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

    found = local_sgd.evaluate(module, identity, inputs, labels)

    assert found.accuracy == 0.75
    assert found.loss == pytest.approx(np.mean([math.log1p(math.exp(-m)) for m in misses]))


def test_batch_statistics_move_in_training_and_rest_in_evaluation() -> None:
    module = nn.Sequential(nn.BatchNorm1d(1, momentum=0.5), nn.Linear(1, 2)).double()
    base = flatten(module)
    inputs, labels = torch.full((4, 1), 6.0).double(), torch.zeros(4, dtype=torch.int64)
    local_sgd.evaluate(module, base, inputs, labels)
    rested = flatten(module)

    found = local_sgd.train(module, base, inputs, labels, settings(batch_size=4), passes())

    np.testing.assert_array_equal(rested, base)
    assert vector_of(found)[2] == 3.0  # running mean: half of 0 and half of 6
    assert vector_of(local_sgd.gradient(module, base, inputs, labels))[2] == 0.0


def test_frozen_parameters_stay_as_they_are() -> None:
    module, base = network()
    module[0].requires_grad_(False)
    inputs, labels = data()
    num_frozen = (NUM_FEATURES + 1) * 8
    before = [weight.clone() for weight in module[0].parameters()]
    base = base[num_frozen:]

    found = local_sgd.train(module, base, inputs, labels, settings(weight_decay=0.1), passes())

    assert all(map(torch.equal, module[0].parameters(), before))
    assert vector_of(found).shape == base.shape
    assert not np.array_equal(vector_of(found), base)
    assert vector_of(local_sgd.gradient(module, base, inputs, labels)).shape == base.shape


def test_sequences_are_evaluated_few_at_a_time_with_equal_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
