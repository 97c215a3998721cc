import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.loss_settings import FocalSettings
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.sample_losses import FocalLoss, losses, losses_of
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_memory import step_memory
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.user.parts.checked_loss import CheckedLoss
from tests.learning.given_losses import given_loss, squared

LOCAL = LocalSettings(epochs=1, batch_size=5, optimizer=SgdSettings(learning_rate=0.1))
SAMPLE = torch.tensor([[4.0]]), torch.tensor([0])


def at_zero() -> nn.Linear:
    module = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(module.weight)
    return module


# --- in training and evaluation -------------------------------------------------------------------
def test_a_step_follows_the_loss_by_hand() -> None:
    """Scores 0, 0 for label 0: the loss is 1, its gradient by the weights -2 x 4, and 0."""
    module = at_zero()
    result = local_sgd.train(
        module,
        flatten(module),
        *SAMPLE,
        LOCAL,
        local_sgd.Passes(epochs=1, stream=rng.stream(1, "test")),
        own_loss=given_loss(squared).build(),
    )

    assert result.vector is not None
    np.testing.assert_allclose(result.vector, [0.8, 0.0], rtol=1e-6)
    assert (result.loss, result.loss_rms) == (1.0, 1.0)


def test_gradients_and_evaluations_have_the_loss_too() -> None:
    module, own = at_zero(), given_loss(squared).build()
    gradient = local_sgd.gradient(module, flatten(module), *SAMPLE, own_loss=own)
    evaluated = local_sgd.evaluate(
        module, np.array([0.25, 0.5], dtype=np.float32), *SAMPLE, own_loss=own
    )

    assert gradient.vector is not None
    np.testing.assert_allclose(gradient.vector, [-8.0, 0.0], rtol=1e-6)
    assert evaluated.loss == 4.0  # scores 1 and 2
    assert evaluated.accuracy == 0.0


def test_labels_are_smoothed_for_the_cross_entropy_alone() -> None:
    with pytest.raises(ValueError, match="cross-entropy alone"):
        losses_of(nn.Linear(2, 3), FocalLoss(1.0), label_smoothing=0.1)


def test_memory_of_a_step_has_what_the_loss_keeps() -> None:
    """Beside logits and inputs: a copy of [1000, 3] floats per sample for the backward pass."""

    def wide(outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs.repeat(1, 1000).square().mean(dim=1)

    plain = step_memory(nn.Linear(2, 3), (2,), LOCAL)
    own = step_memory(nn.Linear(2, 3), (2,), LOCAL.model_copy(update={"loss": given_loss(wide)}))

    assert plain.sample_byte < 100
    assert 12_000 <= own.sample_byte < 12_200
    assert own.state_byte == plain.state_byte


# --- answers in a run -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda scores, labels: scores.sum(), r"returned one number for 2 samples; it must return"),
        (lambda scores, labels: 1.0, "returned float, not a tensor"),
        (lambda scores, labels: scores[9], r"fails: IndexError: .* \(.*test_checked_loss.py, line"),
    ],
)
def test_a_wrong_answer_ends_the_run_with_a_line(call: Any, message: str) -> None:
    checked = CheckedLoss(call, "loss mine:f")
    with pytest.raises(PluginError, match=f"^loss mine:f: losses {message}"):
        checked.losses(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))


def test_a_loss_with_weights_to_train_is_refused() -> None:
    class Center(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centers = nn.Parameter(torch.zeros(3))

        def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
            return (outputs - self.centers).square().sum(dim=1)

    with pytest.raises(
        ScenarioError, match=r"^loss mine:C: has weights that no client would train"
    ):
        CheckedLoss(Center(), "loss mine:C")
    frozen = CheckedLoss(Center().requires_grad_(False), "loss mine:C")

    assert frozen.losses(torch.tensor([[1.0, 2.0, 0.0]]), torch.tensor([0])).tolist() == [5.0]


# --- focal loss -----------------------------------------------------------------------------------
def test_the_focal_loss_by_hand_of_single_labels_and_of_sequences() -> None:
    """Logits 0, log 3 for label 1: p = 3/4, so the loss is (1/4)^2 times -log(3/4)."""
    pair = [0.0, math.log(3.0)]
    logits = torch.tensor([pair, pair], dtype=torch.float64)
    losses = FocalLoss(2.0).losses(logits, torch.tensor([1, 0]))
    sequence = torch.tensor([[pair, [0.0, 0.0]]], dtype=torch.float64)
    mean = FocalLoss(1.0).losses(sequence, torch.tensor([[1, 0]]))

    expected = [-math.log(0.75) / 16, -math.log(0.25) * (0.75**2)]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-12)
    # The mean of its positions.
    np.testing.assert_allclose(
        mean.numpy(), [(-math.log(0.75) / 4 - math.log(0.5) / 2) / 2], rtol=1e-12
    )


def test_without_focus_it_is_the_cross_entropy() -> None:
    logits, labels = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), [3, 0, 1, 2, 2]
    same = FocalSettings(gamma=0.0).build().losses(logits, torch.tensor(labels))

    assert torch.equal(same, losses(logits, torch.tensor(labels)))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_samples_that_are_sure_have_finite_gradients(gamma: float) -> None:
    logits = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    each = FocalLoss(gamma).losses(logits, torch.tensor([0, 0]))
    (gradient,) = torch.autograd.grad(each.sum(), logits)

    assert each.tolist() == [0.0, 400.0]
    assert bool(torch.isfinite(gradient).all())
