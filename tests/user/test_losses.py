"""Losses as plug-ins: from Python, by name, as a kind, and refused."""

import importlib
import json
import sys
from typing import Any

import pytest
import torch

import fleetsim
from fleetsim.errors import ScenarioError

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
    assert command("check-plugin", "mine:squared").out == "conforms: mine:squared is a loss\n"
    assert fleetsim.check_plugin(torch.nn.CrossEntropyLoss(reduction="none"), "loss") == "loss"
    with pytest.raises(ScenarioError, match="returned one number for 5 samples"):
        fleetsim.check_plugin(torch.nn.CrossEntropyLoss(), "loss")


@pytest.mark.parametrize("kind", ["loss", "model"])
def test_a_built_in_function_that_does_not_say_what_it_takes_is_refused_in_a_line(kind):
    given: dict[str, Any] = {kind: max}
    with pytest.raises(ScenarioError, match=r"builtin_function_or_method.* fails: "):
        fleetsim.run("quickstart", **given, progress=False, out="none")
