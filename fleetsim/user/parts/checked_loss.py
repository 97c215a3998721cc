"""Loss of the user's own: in a run, where its answers are checked, and its trial before one."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.host.user_code import user_faults
from fleetsim.learning.local.sample_losses import LossFunction
from fleetsim.learning.models.model_fault import ModelFaultError, from_code_of
from fleetsim.quoting import type_name

_NUM_TRIED = 5
_SPREAD = 2.0
"""Standard deviation of the logits of a trial: some samples are classified well, some badly."""


def function_of(part: Any) -> LossFunction:
    """Return what computes the losses: the method `losses` of an object, or the object itself."""
    if isinstance(part, CheckedLoss):
        return part.call
    result: LossFunction = getattr(part, "losses", part)
    return result


class CheckedLoss:
    """Loss of the user's own, each of whose answers is checked."""

    def __init__(self, part: Any, label: str) -> None:
        """Wrap an object with `losses`, or one that can be called; `label` names it in messages."""
        if (message := weights_fault(part)) is not None:
            raise ScenarioError(f"{label}: {message}")
        self.call = function_of(part)
        """Function that computes the losses, unchecked."""
        self._label = label

    def losses(self, outputs: Any, labels: Tensor) -> Tensor:
        """Return the loss of each sample [n]."""
        with user_faults(f"{self._label}: losses"):
            result = self.call(outputs, labels)
        wrong = answer_fault(result, len(labels))
        if wrong is not None:
            raise PluginError(f"{self._label}: losses {wrong}")
        return result


def weights_fault(part: Any) -> str | None:
    """Return what is wrong with the weights of a loss; None if it has none that are trained."""
    if isinstance(part, torch.nn.Module) and any(one.requires_grad for one in part.parameters()):
        return (
            "has weights that no client would train; set requires_grad=False, or make them part of"
            " the network, which may return more than logits while it trains"
        )
    return None


def answer_fault(answer: Any, num_samples: int) -> str | None:
    """Return what an answer is instead of the losses [n] of samples."""
    if not isinstance(answer, Tensor):
        return f"returned {type_name(answer)}, not a tensor"
    if answer.shape != (num_samples,):
        what = "one number" if answer.dim() == 0 else f"the shape {tuple(answer.shape)}"
        return (
            f"returned {what} for {num_samples} samples; it must return the loss of each sample"
            f" [{num_samples}], as torch's losses do with reduction='none'"
        )
    if not answer.dtype.is_floating_point:
        return f"returned {str(answer.dtype).removeprefix('torch.')}, not a float tensor"
    return None


def check_loss(call: LossFunction, samples: SampleForm) -> None:
    """Check a loss on drawn logits and labels for samples of a form."""
    first, labels = _drawn(samples, "one")
    others, other_labels = _drawn(samples, "other")
    losses, gradient = _computed(call, first, labels)
    _computed(call, others, other_labels)
    again, gradient_again = _computed(call, first, labels)
    if not (torch.equal(losses, again) and torch.equal(gradient, gradient_again)):
        raise ModelFaultError(
            "losses gives two results for the same outputs and labels; it must keep nothing from"
            " one call to the next, and draw nothing"
        )
    with torch.no_grad():
        _losses(call, first[:1], labels[:1])


def _computed(call: LossFunction, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return losses and the gradient of their sum by the outputs."""
    leaf, kept_labels = outputs.clone().requires_grad_(), labels.clone()
    seen = leaf * 1.0  # as the outputs of a network, it may be changed in place
    losses = _losses(call, seen, labels)
    for name, given, kept in (("outputs", seen, outputs), ("labels", labels, kept_labels)):
        if not torch.equal(given.detach(), kept):
            raise ModelFaultError(f"losses changes its {name}; work on a copy")
    if not bool(torch.isfinite(losses).all()):
        raise ModelFaultError("losses returned numbers that are not finite, from logits around 0")
    gradient = None
    if losses.requires_grad:
        (gradient,) = torch.autograd.grad(losses.sum(), leaf, allow_unused=True)
    if gradient is None or not bool(gradient.any()):
        raise ModelFaultError(
            "losses do not depend on the outputs by differentiable operations; leave out detach,"
            " argmax, round, no_grad and .data"
        )
    if not bool(torch.isfinite(gradient).all()):
        raise ModelFaultError(
            "losses have gradients that are not finite, at logits around 0; check powers, roots,"
            " logarithms and divisions"
        )
    return losses.detach(), gradient


def _losses(call: LossFunction, outputs: Tensor, labels: Tensor) -> Tensor:
    shapes = f"outputs {list(outputs.shape)} and labels {list(labels.shape)}"
    with from_code_of(f"losses, with {shapes},"):
        answer: Any = call(outputs, labels)
    if (message := answer_fault(answer, len(labels))) is not None:
        raise ModelFaultError(f"losses {message}")
    losses: Tensor = answer
    return losses


def _drawn(samples: SampleForm, which: str) -> tuple[Tensor, Tensor]:
    """Return logits and labels; the same for equal arguments."""
    draw = rng.stream(0, f"loss trial/{which}")
    places = samples.input_shape[:1] if samples.is_sequence else ()
    shape = (_NUM_TRIED, *places)
    logits = draw.normal(scale=_SPREAD, size=(*shape, samples.num_classes))
    labels = draw.integers(samples.num_classes, size=shape)
    return torch.from_numpy(logits.astype(np.float32)), torch.from_numpy(labels)
