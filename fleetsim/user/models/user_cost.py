"""Cost of a network of the user's own for a device: counted, or as the network declares it."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from fleetsim.contracts import BackwardCost, ModelCost, SampleForm
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.models.cost import cost_of
from fleetsim.learning.models.model_fault import ModelFaultError
from fleetsim.learning.models.synthetic_samples import zero_batch
from fleetsim.quoting import quoted
from fleetsim.user.flop.operation_flop import CountedPasses, counted_passes

CLASSES = ("conv", "depthwise", "gemm", "rnn")
"""Operation classes of FLOP."""
DECLARATION = "flop_per_sample"
"""Attribute by which a network declares the FLOP of a sample's forward pass by class."""


def counted_cost(module: nn.Module, samples: SampleForm) -> ModelCost:
    """Return the cost of a network for samples of a form; the module does not change.

    A network that has `flop_per_sample`, a mapping from operation classes to FLOP of a forward
    pass, is taken at its word. Its layers are counted all the same, and so is the share of its
    backward pass if some weights are frozen.
    """
    declared = getattr(module, DECLARATION, None)
    device = next(module.parameters()).device
    with addressed(0, "trial", on_cuda=device.type == "cuda"):
        counted = counted_passes(
            module, zero_batch(samples, 1).to(device), is_lenient=declared is not None
        )
    if declared is None:
        return cost_of(module, *counted)
    flop = _declared(declared)
    return cost_of(module, flop, counted.layers, _scaled(counted, flop))


def _scaled(counted: CountedPasses, declared: Mapping[str, float]) -> BackwardCost | None:
    """Return the backward pass in proportion to a declared forward pass, class by class.

    It is twice the forward pass in a class of which nothing was counted.
    """
    if counted.backward is None:
        return None
    flop = {}
    for kind, forward in declared.items():
        seen = counted.flop.get(kind)
        flop[kind] = forward * (counted.backward.flop.get(kind, 0.0) / seen if seen else 2.0)
    return replace(counted.backward, flop=flop)


def _declared(value: Any) -> dict[str, float]:
    """Return a declaration, checked."""
    if not isinstance(value, Mapping) or not value:
        raise ModelFaultError(
            f"{DECLARATION} is {quoted(value)}; it must be a mapping of FLOP by class, such as"
            ' {"conv": 1.2e9, "gemm": 1e6}'
        )
    for kind, flop in value.items():
        if kind not in CLASSES:
            raise ModelFaultError(
                f"{DECLARATION} has the class {quoted(kind)}; classes are {', '.join(CLASSES)}"
            )
        is_number = isinstance(flop, int | float) and not isinstance(flop, bool)
        if not is_number or not math.isfinite(flop) or flop <= 0:
            raise ModelFaultError(
                f"{DECLARATION}[{quoted(kind)}] is {quoted(flop)}, not a number > 0"
            )
    return {str(kind): float(flop) for kind, flop in value.items()}
