"""Building of a network of the user's own, with addressed random draws, and checks of what it is.

The user's class or function draws the initial weights itself, as torch's layers do when they are
made, from global generators that are set to the address (seed, "model") and restored afterwards. So
equal seeds give equal weights, whatever was drawn before.

Each check raises a `ModelFaultError` whose message is one line: what is wrong, where, and the way
out.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fleetsim.contracts import SampleForm
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.model_fault import ModelFaultError, from_code_of
from fleetsim.learning.models.synthetic_samples import drawn_samples, zero_batch
from fleetsim.quoting import type_name
from fleetsim.training.trial_clients import copied
from fleetsim.user.watched_calls import faults_of

_BATCH_NORMS = nn.modules.batchnorm._BatchNorm
_NUM_TRIED = (2, 3, 1)
"""Samples of the trial's batches: several, so that a network that confuses samples with features is
noticed; an odd number; and one, which the last batch of a client or of the test set may have."""


def check_weights(module: nn.Module) -> None:
    """Check that a network's whole state is a vector of float32, some of which is trained."""
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
    """Check the forward pass of a network in evaluation mode on batches of a form.

    It must draw nothing, leave its input alone, and give equal logits twice. The network does not
    change.
    """
    tried = copied(module).eval()
    for num in _NUM_TRIED:
        _check_batch(tried, samples, num)


def _check_batch(tried: nn.Module, samples: SampleForm, num: int) -> None:
    inputs, _ = drawn_samples(samples, num)
    batch = torch.from_numpy(inputs)
    kept = batch.clone()
    with torch.no_grad(), addressed(0, "trial") as draws:
        first = _logits(tried, batch)
    check_logits(first, samples, num)
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
    answer: object = second  # the first result was checked
    is_alike = isinstance(answer, torch.Tensor) and first.dtype == answer.dtype
    if not (is_alike and first.device == second.device and torch.equal(first, second)):
        raise ModelFaultError(
            "two forward passes on the same samples in evaluation mode differ; what they depend on"
            " must be weights, buffers or the samples"
        )


def _logits(module: nn.Module, batch: Tensor) -> Any:
    with from_code_of(f"its forward pass on a batch of the shape {tuple(batch.shape)}"):
        return module(batch)


def check_logits(logits: object, samples: SampleForm, num: int) -> None:
    """Check that what a network returns for some samples are logits."""
    if not isinstance(logits, Tensor):
        raise ModelFaultError(
            f"its forward pass returns {type_name(logits)}; it must return a tensor of logits"
        )
    places = samples.input_shape[:1] if samples.is_sequence else ()
    expected = (num, *places, samples.num_classes)
    if tuple(logits.shape) != expected:
        squeezed = tuple(size for size in expected if size != 1)
        hint = "; squeeze removes the samples' axis, too" if tuple(logits.shape) == squeezed else ""
        those = "1 sample" if num == 1 else f"{num} samples"
        form = "[samples, positions, classes]" if samples.is_sequence else "[samples, classes]"
        raise ModelFaultError(
            f"its forward pass returns the shape {tuple(logits.shape)} for {those} of"
            f" the shape {samples.input_shape}; it must return logits {form}: {expected}{hint}"
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


def initial_network(
    make: Callable[[], object], label: str, samples: SampleForm, *, seed: int
) -> nn.Module:
    """Return the network with its initial weights on the CPU, checked.

    A BatchNorm's count of batches is left out, as in fleetsim's own networks: nothing reads it
    where the running statistics decay at a fixed rate. `make` calls the user's class or function,
    and says its own faults.
    """
    with faults_of(label):
        module = _initial(make, samples, seed)
        check_weights(module)
        # Built twice in every run, so that a generator without a seed is noticed.
        if flatten(module).tobytes() != flatten(_initial(make, samples, seed)).tobytes():
            raise ModelFaultError(
                "it is built with other weights the second time; draw them from torch's, numpy's or"
                " random's global generators, which fleetsim seeds, or with a seed of their own"
            )
        for layer in module.modules():
            if isinstance(layer, _BATCH_NORMS):
                layer.num_batches_tracked = None
        check_forward(module, samples)
    return module


def _initial(make: Callable[[], object], samples: SampleForm, seed: int) -> nn.Module:
    """Return the network with its initial weights on the CPU, not checked."""
    with addressed(seed, "model"):
        module = make()
        if not isinstance(module, nn.Module):
            made: Any = module
            what = f"the class {made.__name__}" if isinstance(made, type) else type_name(made)
            raise ModelFaultError(f"gives {what}, not an object of torch.nn.Module")
        with from_code_of("its move to the CPU"):
            module = module.to("cpu")
        if any(nn.parameter.is_lazy(value) for value in module.parameters()):
            # Lazy layers take their sizes from the samples of a first pass.
            with torch.no_grad(), from_code_of("its first forward pass, for its lazy layers,"):
                module.eval()(zero_batch(samples, 2))
    return module.train()
