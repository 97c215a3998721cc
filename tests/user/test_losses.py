"""Losses as plug-ins: from Python, by name, as a kind, and refused."""

import importlib
import json
import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fleetsim
from fleetsim import rng
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.sample_losses import FocalLoss, losses, losses_of
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_memory import step_memory
from fleetsim.learning.local.step_settings import FocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.user.parts.checked_loss import CheckedLoss
from tests.learning.given_losses import given_loss, squared

OWN = '''
from typing import Annotated, Literal
from pydantic import Field
from torch.nn.functional import cross_entropy, one_hot
from fleetsim.settings import Settings
from tests.user.broken_client_trainings import Plain


def squared(logits, labels):
    return (logits - one_hot(labels, logits.shape[-1])).square().sum(dim=1)


def entropy(logits, labels):
    return cross_entropy(logits, labels, reduction="none")


class Scaled:
    class Settings(Settings):
        """Cross-entropy times a factor."""
        kind: Literal["scaled"] = "scaled"
        factor: Annotated[float, Field(ge=0.1, le=10.0)] = 2.0

    def __init__(self, settings):
        self.factor = settings.factor

    def losses(self, outputs, labels):
        return self.factor * entropy(outputs, labels)


class Trains(Plain):
    def train_client(self, model, data, generator, settings):
        update = super().train_client(model, data, generator, settings)
        return update._replace(metrics={"own": data.evaluated(model)[0]})
'''


@pytest.fixture
def own(own_module):
    sys.path.append(str(own_module(OWN, "mine").parent))
    return importlib.import_module("mine")


def run(**how: Any) -> fleetsim.Run:
    return fleetsim.run("small.yaml", **{"progress": False, "workers": 1, **how})


@pytest.mark.slow
def test_it_is_given_from_python_and_by_name(own):
    given = run(loss=own.squared, out="given")
    named = run(plugin="mine:squared", out="named", workers=2)
    plain = run(out="plain")

    assert given.manifest.digest == named.manifest.digest != plain.manifest.digest
    assert given.scenario["task"]["local"]["loss"] == {"kind": "mine:squared"}
    assert [(one.kind, one.name, one.affects_results) for one in given.manifest.plugins] == [
        ("loss", "mine:squared", True)
    ]
    assert given.manifest.plugins[0].source_sha256 is not None
    assert given.manifest.trainer == "vectorised"
    # Losses cost no FLOP.
    assert given.tasks.compute_s.tolist() == plain.tasks.compute_s.tolist()


@pytest.mark.slow
def test_with_settings_it_is_a_kind_whose_factor_is_a_learning_rate_also_in_own_training(own):
    """Twice the loss at half the learning rate takes the same steps, but for rounding."""
    rate = fleetsim.load("small.yaml").task.local.optimizer.learning_rate
    half = {"task.local.loss": {"kind": "scaled"}, "task.local.optimizer.learning_rate": rate / 2}
    scaled = run(overrides=half, loss=own.Scaled, local=own.Trains, out="scaled")
    plain = run(local=own.Trains, out="plain")
    evaluated, plainly = (
        [json.loads(words)["own"] for words in each.tasks.train_metrics] for each in (scaled, plain)
    )

    assert scaled.scenario["task"]["local"]["loss"] == {"kind": "scaled", "factor": 2.0}
    for double, single in (
        (scaled.rounds.loss, plain.rounds.loss),
        (scaled.tasks.train_loss, plain.tasks.train_loss),
    ):
        assert double.tolist() == pytest.approx((2.0 * single).tolist(), rel=1e-5)
    assert evaluated == pytest.approx([2.0 * loss for loss in plainly], rel=1e-5)
    with pytest.raises(ScenarioError, match="did you mean 'factor'"):
        run(overrides={"task.local.loss": {"kind": "scaled", "facto": 3.0}}, loss=own.Scaled)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trainer.kind=stacked"], "trainer.kind = 'stacked': .*label_smoothing or loss; use auto"),
        (["task.local.label_smoothing=0.1"], "is of the cross-entropy, and task.local.loss.kind"),
        (["task.model={kind: svm}"], "is another loss than the hinge loss of svm; leave it out"),
    ],
)
def test_what_does_not_suit_it_is_refused_in_a_line(own, words, message):
    with pytest.raises(ScenarioError, match=message) as fault:
        run(loss=own.squared, overrides=words, out="none")
    assert len(fault.value.faults) == 1


def test_without_training_a_loss_says_that_it_has_no_effect(own, command):
    blank = "task.dataset={kind: blank, input_shape: [64]}"
    ended = command("validate", "small.yaml", "--plugin", "mine:squared", "--set", blank)

    assert ended.code == 0
    assert "task.local.loss" in ended.err
    assert "has no effect" in ended.err


@pytest.mark.slow
def test_a_function_of_two_arguments_is_a_loss_and_a_torch_loss_by_word(own, command):
    assert command("plugin", "check", "mine:squared").out == "conforms: mine:squared is a loss\n"
    assert fleetsim.check_plugin(torch.nn.CrossEntropyLoss(reduction="none"), "loss") == "loss"
    with pytest.raises(ScenarioError, match="returned one number for 5 samples"):
        fleetsim.check_plugin(torch.nn.CrossEntropyLoss(), "loss")


@pytest.mark.parametrize("kind", ["loss", "model"])
def test_a_built_in_function_that_does_not_say_what_it_takes_is_refused_in_a_line(kind):
    given: dict[str, Any] = {kind: max}
    with pytest.raises(ScenarioError, match=r"builtin_function_or_method.* fails: "):
        fleetsim.run("quickstart", **given, progress=False, out="none")


LOCAL = LocalSettings(epochs=1, batch_size=5, optimizer=SgdSettings(learning_rate=0.1))
SAMPLE = torch.tensor([[4.0]]), torch.tensor([0])


def at_zero() -> nn.Linear:
    module = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(module.weight)
    return module


def test_a_step_follows_the_loss_by_hand() -> None:
    """Scores 0, 0 for label 0: the loss is 1, its gradient by the weights -2 x 4, and 0."""
    module = at_zero()
    result = local_sgd.train(
        module,
        flatten(module),
        *SAMPLE,
        LOCAL,
        local_sgd.Passes(epochs=1, stream=rng.stream(1, "test")),
        scenario_loss=given_loss(squared).build(),
    )

    assert result.vector is not None
    np.testing.assert_allclose(result.vector, [0.8, 0.0], rtol=1e-6)
    assert (result.loss, result.loss_rms) == (1.0, 1.0)


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda scores, labels: scores.sum(), r"returned one number for 2 samples; it must return"),
        (lambda scores, labels: 1.0, "returned float, not a tensor"),
        (lambda scores, labels: scores[9], r"fails: IndexError: .* \(.*test_losses.py, line"),
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
