"""Cost of a network of the user's own for a device: counted, or as the network declares it.

One sample passes through the network, in evaluation mode. A layer for which `cost.layer_flop` has a
rule (linear, convolution, recurrent, or with an `own_flop`) counts by that rule. Everywhere else
torch's operations are watched as they are computed, and products count by torch's own formulas:
those in a network's own `forward`, in `nn.MultiheadAttention`, in `scaled_dot_product_attention`.
An operation that may multiply and has no formula is an error that names the layer.

Attention is computed by its definition here, over the whole square of positions.

The backward pass of a network with frozen weights counts the gradients that autograd computes. A
product has one for each factor that depends on a trained weight, and each takes as many FLOP as the
product. So the backward pass ends at the first trained weight.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import TorchDispatchMode

from fleetsim.contracts import BackwardCost, ModelCost, SampleForm
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.models.cost import (
    SpendsFlop,
    cost_of,
    layer_flop,
    num_launched,
    operation_class,
)
from fleetsim.learning.models.flat_vector import frozen
from fleetsim.learning.models.model_fault import ModelFaultError
from fleetsim.learning.models.synthetic_samples import zero_batch
from fleetsim.quoting import quoted
from fleetsim.user.models.counted_operations import is_free, num_gradients, product

_RULED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LSTM, nn.GRU, nn.RNN)


class CountedPasses(NamedTuple):
    """FLOP of a sample's forward pass, and layers with FLOP, by class, none of them 0."""

    flop: Mapping[str, float]
    layers: Mapping[str, int]
    backward: BackwardCost | None
    """Cost of the backward pass; None: no weight is frozen."""


def counted_passes(
    module: nn.Module, samples: Tensor, *, is_lenient: bool = False
) -> CountedPasses:
    """Return the FLOP and layers of a network, which does not change, for a batch of one sample.

    A layer is one that a device launches by itself: a layer with a rule, or else every product.
    Operations without a formula are a fault, or count as free if it is lenient.
    """
    count = _Count(module, is_lenient=is_lenient)
    was_training = {layer: layer.training for layer in module.modules()}
    with_fastpath = torch.backends.mha.get_fastpath_enabled()
    # Fused forms of attention have no formula on the CPU.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        module.eval()
        # Only gradients that are not those of all weights have to be told apart.
        has_frozen = bool(frozen(module))
        with (
            torch.set_grad_enabled(has_frozen),
            sdpa_kernel(SDPBackend.MATH),
            count.watching(module),
            count,
        ):
            module(samples)
    finally:
        torch.backends.mha.set_fastpath_enabled(with_fastpath)
        for layer, mode in was_training.items():
            layer.training = mode
    flop, backward = (
        {kind: float(number) for kind, number in counter.items()}
        for counter in (count.flop, count.backward)
    )
    cost = BackwardCost(backward, count.num_launches) if has_frozen else None
    return CountedPasses(flop, dict(count.layers), cost)


def _has_rule(layer: nn.Module) -> bool:
    """Return whether `layer_flop` knows a layer: its own rule, or a stock layer's `forward`."""
    if isinstance(layer, SpendsFlop):
        return True
    return any(type(layer).forward is stock.forward for stock in _RULED)


class Gradients(NamedTuple):
    """Gradients of one layer for one sample."""

    flop: int
    num_launches: int
    """Products that a device launches for them."""


class _Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count of FLOP and layers while a network computes."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True, torch's default, imports its compiler, which takes seconds.
        return False

    def __init__(self, module: nn.Module, *, is_lenient: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names = {layer: name for name, layer in module.named_modules()}
        self._root = module
        self._is_lenient = is_lenient
        self._inside: list[nn.Module] = []
        self.flop: Counter[str] = Counter()
        self.layers: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()
        self.num_launches = 0

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Know inside the block which layer computes, and count layers with a rule."""
        hooks = []
        for layer in module.modules():
            hooks.append(layer.register_forward_pre_hook(self._enter))
            hooks.append(layer.register_forward_hook(self._leave, with_kwargs=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, layer: nn.Module, inputs: Any) -> None:
        self._inside.append(layer)

    def _leave(self, layer: nn.Module, inputs: Any, named: dict[str, Any], outputs: Any) -> None:
        self._inside.pop()
        if not _has_rule(layer):
            return
        given = [*inputs, *named.values()][0]
        first = given.data if isinstance(given, PackedSequence) else given
        kind, flop = operation_class(layer), layer_flop(layer, first, outputs)
        self._add(kind, flop, num_launched(layer))
        self._add_backward(kind, _gradients_of(layer, first, flop))

    def _add(self, kind: str, flop: int, num_layers: int = 1) -> None:
        if flop > 0:
            self.flop[kind] += flop
            self.layers[kind] += num_layers

    def _add_backward(self, kind: str, gradients: Gradients) -> None:
        # Nothing within `torch.no_grad` has a gradient.
        if torch.is_grad_enabled() and gradients.flop > 0:
            self.backward[kind] += gradients.flop
            self.num_launches += gradients.num_launches

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        layer = self._inside[-1] if self._inside else self._root
        if _has_rule(layer) or is_free(func):
            return out
        counted = product(func, args, kwargs or {}, out)
        if counted is not None:
            kind, flop = counted
            if isinstance(layer, nn.RNNCellBase):
                kind = "rnn"
            num = num_gradients(func, args)
            self._add(kind, flop)
            self._add_backward(kind, Gradients(num * flop, num))
        elif not self._is_lenient:
            raise ModelFaultError(self._unknown(layer, func))
        return out

    def _unknown(self, layer: nn.Module, operation: Any) -> str:
        name = self._names.get(layer, "")
        where = f"layer {name} ({type(layer).__name__})" if name else type(layer).__name__
        return (
            f"the FLOP of {where} are not known: it computes {operation._schema.name}, for which"
            " there is no formula; give the layer a method own_flop(self, inputs), or the network"
            ' flop_per_sample = {"gemm": ...}'
        )


def _gradients_of(layer: nn.Module, inputs: Tensor, flop: int) -> Gradients:
    """Return the gradients of a layer with a rule, without those of its sub-layers.

    A product y = W x has one by its input where that depends on a trained weight, and one by its
    weights where these are trained. Gradients of biases are sums, which are free.

    A layer with an `own_flop` counts like a linear one if it has weights of its own. Without them
    it multiplies what it is given, so that both factors have a gradient. Its input requires a
    gradient if it depends on a trained weight; `flop` are those of its forward pass.
    """
    if isinstance(layer, nn.RNNBase):
        return _recurrent(layer, inputs)
    needs_inputs = inputs.requires_grad
    if isinstance(layer, SpendsFlop):
        weights = layer._parameters
        num = needs_inputs + any(_is_trained(value) for value in weights.values())
        num = num if weights else 2 * needs_inputs
    else:
        # With a parametrisation the weight is computed from several parameters.
        num = needs_inputs + any(
            _is_trained(value)
            for name, value in layer.named_parameters()
            if "bias" not in name.split(".")
        )
    return Gradients(num * flop, num)


def _recurrent(layer: nn.RNNBase, inputs: Tensor) -> Gradients:
    """Return the gradients of a recurrent layer.

    A direction multiplies its hidden state by weights in every step. That has a gradient if the
    state depends on a trained weight: one of the direction, or one before it. The state before the
    first step is 0 and has none.
    """
    num_steps = inputs.numel() // inputs.shape[-1]
    num_texts = inputs.shape[0 if layer.batch_first else 1] if inputs.dim() == 3 else 1
    terms, num_launches, reaches = 0, 0, inputs.requires_grad
    for index in range(layer.num_layers):
        through = False
        for direction in ("", "_reverse") if layer.bidirectional else ("",):
            end = f"_l{index}{direction}"
            weights = {
                name: value for name, value in layer.named_parameters() if name.endswith(end)
            }
            is_reached = reaches or any(map(_is_trained, weights.values()))
            through |= is_reached
            for name, value in weights.items():
                if name.startswith("bias"):
                    continue
                reached_steps = num_steps * (reaches if "_ih_" in name else is_reached)
                if "_hh_" in name and is_reached:
                    reached_steps -= num_texts
                terms += value.numel() * (num_steps * _is_trained(value) + reached_steps)
            trained = any(
                _is_trained(v) for name, v in weights.items() if name.startswith("weight")
            )
            num_launches += is_reached + trained
        reaches = through
    return Gradients(2 * terms, num_launches)


def _is_trained(value: Tensor | None) -> bool:
    return value is not None and value.requires_grad


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
