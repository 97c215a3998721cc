"""Checks of a network of the user's own: its weights, and what its forward pass does.

Each raises a `ModelFaultError` whose message is one line: what is wrong, where, and the way out.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from fleetsim.contracts import SampleForm
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.models.own.model_fault import ModelFaultError, from_code_of
from fleetsim.learning.models.own.synthetic_samples import drawn_samples

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm
_NUM_TRIED = 2
"""Samples of a trial: two, so that a network that confuses samples with features is noticed."""


def check_weights(module: nn.Module) -> None:
    """Check that a network's whole state is one vector of float32 and that some of it is trained.

    Raises:
        ModelFaultError: it is not.
    """
    named = [*module.named_parameters(), *module.named_buffers()]
    for name, value in named:
        if (value.is_floating_point() or value.is_complex()) and value.dtype != torch.float32:
            raise ModelFaultError(
                f"{name} is {_word(value.dtype)}; fleetsim trains float32, make it that"
            )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ModelFaultError("it has no parameter that is trained (requires_grad); give it one")
    for name, layer in module.named_modules():
        if isinstance(layer, _BATCH_NORMS) and layer.track_running_stats and layer.momentum is None:
            raise ModelFaultError(
                f"layer {name} ({type(layer).__name__}) averages over a count of batches, which is"
                " no part of the weights that clients send; give it a momentum, such as 0.1"
            )


def check_forward(module: nn.Module, samples: SampleForm) -> None:
    """Check the forward pass of a network in evaluation mode on two samples of a form.

    The network does not change.

    Raises:
        ModelFaultError: it fails, draws random numbers, changes its input, gives another result the
            second time, or results that are no logits for these samples.
    """
    inputs, _ = drawn_samples(samples, _NUM_TRIED)
    batch = torch.from_numpy(inputs)
    kept = batch.clone()
    tried = copied(module).eval()
    with torch.no_grad(), addressed(0, "trial") as draws:
        first = _logits(tried, batch)
    _check_logits(first, samples)
    if draws.library is not None:
        raise ModelFaultError(
            f"its forward pass draws random numbers ({draws.library}) in evaluation mode, so that a"
            " model has no one accuracy; draw only while self.training"
        )
    if not torch.equal(batch, kept):
        raise ModelFaultError(
            "its forward pass changes its input, which are the samples of a client; use operations"
            " that do not work in place, such as x = x + 1"
        )
    with torch.no_grad(), addressed(0, "trial"):
        second = _logits(tried, batch)
    if not torch.equal(first, second):
        raise ModelFaultError(
            "two forward passes on the same samples in evaluation mode differ; what they depend on"
            " must be weights, buffers or the samples"
        )


def copied(module: nn.Module) -> nn.Module:
    """Return a copy of a network.

    Raises:
        ModelFaultError: it cannot be copied.
    """
    with from_code_of("copy.deepcopy of it"):
        return copy.deepcopy(module)


def _logits(module: nn.Module, batch: Tensor) -> Tensor:
    with from_code_of(f"its forward pass on a batch of the shape {tuple(batch.shape)}"):
        found: object = module(batch)
    if not isinstance(found, Tensor):
        raise ModelFaultError(
            f"its forward pass returns {type(found).__name__}; it must return a tensor of logits"
        )
    return found


def _check_logits(logits: Tensor, samples: SampleForm) -> None:
    places = samples.input_shape[:1] if samples.is_sequence else ()
    expected = (_NUM_TRIED, *places, samples.num_classes)
    if tuple(logits.shape) != expected:
        form = "[samples, positions, classes]" if samples.is_sequence else "[samples, classes]"
        raise ModelFaultError(
            f"its forward pass returns the shape {tuple(logits.shape)} for {_NUM_TRIED} samples of"
            f" the shape {samples.input_shape}; it must return logits {form}: {expected}"
        )
    if logits.dtype != torch.float32:
        raise ModelFaultError(
            f"its forward pass returns {_word(logits.dtype)}; it must return logits as float32"
        )
    if not bool(torch.isfinite(logits).all()):
        raise ModelFaultError(
            "its forward pass returns numbers that are not finite on standard normal samples with"
            " the initial weights; check its initialisation and divisions"
        )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
