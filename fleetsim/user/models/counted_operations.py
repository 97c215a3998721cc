"""Operations of torch by their arithmetic, and the FLOP of one call, counted as torch computes it.

As for fleetsim's own networks, FLOP are those of matrix products and convolutions alone, 2 per
multiply-add (docs/models/learning.md). Torch's counter has their formulas. It takes every operation
that it does not know as free; here `free_operations.toml` lists the free ones, so that a product in
an operation that nobody has a formula for is an error instead of 0.

`counting` counts a call by these formulas and adds launches. It takes what it does not know apart
into operations that it does. A call's batches are the outermost forward passes of its modules;
hooks count them and the parameters that optimizers update.
"""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from math import prod
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from fleetsim.contracts import CountedWork

_aten = torch.ops.aten

_FREE_TAGS = tuple(
    getattr(torch.Tag, name)
    for name in ("pointwise", "reduction", "view_copy")
    if hasattr(torch.Tag, name)  # older versions of torch have fewer
)
"""Torch's own marks of operations on one element at a time, of sums, and of copied views."""

_NAMED = resources.files("fleetsim.user.models").joinpath("free_operations.toml").read_text("utf-8")
_FREE = frozenset(name for names in tomllib.loads(_NAMED).values() for name in names.split())
"""Names of operations without a mark that multiply no matrices."""

Formula = Callable[..., int]


def _vector_flop(matrix: Any, *_: Any, **__: Any) -> int:
    return 2 * int(matrix.numel())


def _added_vector_flop(_: Any, matrix: Any, *__: Any, **___: Any) -> int:
    return 2 * int(matrix.numel())


def _addbmm_flop(_: Any, left: Any, right: Any, **__: Any) -> int:
    return 2 * int(left.numel()) * int(right.shape[-1])


def _rnn_flop(inputs: Any, weights: Any, hidden_weights: Any, *_: Any, **__: Any) -> int:
    """Return the FLOP of a recurrent layer: all its weights at every step of every sample."""
    num_weights = int(weights.numel()) + int(hidden_weights.numel())
    return int(2 * prod(inputs.shape[:-1]) * num_weights)


def _attention_flop(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    return int(_flop_counter().sdpa_flop_count(q.shape, k.shape, v.shape))


def _attention_backward_flop(g: Any, q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    shapes = (g.shape, q.shape, k.shape, v.shape)
    return int(_flop_counter().sdpa_backward_flop_count(*shapes))


def _convolution_backward_flop(gradient: Any, inputs: Any, weight: Any, *rest: Any) -> int:
    """Return the FLOP of the gradients that are asked for; torch's formula knows no groups."""
    num_gradients = int(sum(rest[7][:2]))
    met = inputs if rest[4] else gradient
    return int(num_gradients * 2 * met.numel() * prod(weight.shape[1:]))


_MORE: dict[Any, tuple[str, Formula]] = {
    _aten.dot: ("gemm", _vector_flop),
    _aten.vdot: ("gemm", _vector_flop),
    _aten.mv: ("gemm", _vector_flop),
    _aten.addmv: ("gemm", _added_vector_flop),
    _aten.addmv_: ("gemm", _added_vector_flop),
    _aten.addbmm: ("gemm", _addbmm_flop),
    _aten.mkldnn_rnn_layer: ("rnn", _rnn_flop),
    _aten.mkldnn_rnn_layer_backward: ("rnn", lambda *args, **named: 2 * _rnn_flop(*args, **named)),
    _aten._scaled_dot_product_flash_attention_for_cpu: ("gemm", _attention_flop),
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: ("gemm", _attention_backward_flop),
}
"""Products that torch's counter has no formula for, with their class."""

_WITH_ADDEND = (
    _aten.addmm,
    _aten.addmm_,
    _aten.addmv,
    _aten.addmv_,
    _aten.baddbmm,
    _aten.baddbmm_,
    _aten.addbmm,
)
"""Products whose first argument is added to them."""
_CONVOLUTIONS = (_aten.convolution, _aten._convolution)


def is_free(operation: Any) -> bool:
    """Return whether an operation multiplies no matrices."""
    if operation.namespace == "prim":
        return True
    return operation.namespace == "aten" and (
        operation.is_view
        or any(tag in operation.tags for tag in _FREE_TAGS)
        or operation._schema.name.removeprefix("aten::") in _FREE
    )


def has_formula(operation: Any) -> bool:
    """Return whether the FLOP of an operation are known."""
    packet = operation._overloadpacket
    return packet in _MORE or packet in _flop_counter().flop_registry


def product(
    operation: Any, args: Sequence[Any], named: Mapping[str, Any], out: Any
) -> tuple[str, int] | None:
    """Return class and FLOP of a product; None if neither torch's counter nor this module knows it.

    A convolution is depthwise if every input channel is a group of its own.
    """
    packet = operation._overloadpacket
    if packet in _MORE:
        kind, formula = _MORE[packet]
        return kind, formula(*args, **named)
    if packet is _aten.convolution_backward:
        flop = _convolution_backward_flop(*args)
        return _convolution_class(args[2], groups=args[9], is_transposed=args[7]), flop
    formula = _flop_counter().flop_registry.get(packet)
    if formula is None:
        return None
    flop = int(formula(*args, **named, out_val=out))
    if packet in _CONVOLUTIONS:
        return _convolution_class(args[1], groups=args[8], is_transposed=args[6]), flop
    return "gemm", flop


def _convolution_class(weight: Any, *, groups: int, is_transposed: bool) -> str:
    channels = weight.shape[0] if is_transposed else weight.shape[1] * groups
    return "depthwise" if groups == channels > 1 else "conv"


def _flop_counter() -> Any:
    # Not at the top of the module: it takes time that networks of stock layers alone do not need.
    from torch.utils import flop_counter  # noqa: PLC0415

    return flop_counter


def num_gradients(operation: Any, args: Sequence[Any]) -> int:
    """Return how many factors of a product get a gradient: each takes as many FLOP as the product.

    Arguments are those of `product`.
    """
    first = 1 if operation._overloadpacket in _WITH_ADDEND else 0
    return sum(bool(factor.requires_grad) for factor in args[first : first + 2])


class TorchCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counter of the operations within its block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flop: Counter[str] = Counter()
        self.launches = 0
        self.batches = 0
        self.updated_parameters = 0
        self._depth = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute an operation and count it."""
        kwargs = kwargs or {}
        is_known = has_formula(func)
        if not is_known and func is not torch.ops.prim.device.default:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **kwargs)
        if is_known and (counted := product(func, args, kwargs, out)) is not None:
            kind, flop = counted
            self.flop[kind] += flop
            is_backward = func._overloadpacket is torch.ops.aten.convolution_backward
            # Both gradients are one call: of the inputs, where they are requested, and the weights.
            self.launches += int(sum(args[10][:2])) if is_backward else 1
        return out

    def work(self, num_samples: int) -> CountedWork:
        """Return what was counted, for a call on so many samples."""
        return CountedWork(
            flop=tuple(sorted((kind, float(flop)) for kind, flop in self.flop.items() if flop)),
            batches=max(self.batches, 1),
            launches=self.launches,
            updated_parameters=self.updated_parameters,
            num_samples=num_samples,
        )

    def _enter_module(self, *_: Any) -> None:
        self.batches += self._depth == 0
        self._depth += 1

    def _leave_module(self, *_: Any) -> None:
        self._depth -= 1

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.updated_parameters += sum(
            parameter.numel()
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        )


@contextmanager
def counting() -> Iterator[TorchCount]:
    """Count all that torch computes in this thread within the block."""
    count = TorchCount()
    hooks = [
        nn.modules.module.register_module_forward_pre_hook(count._enter_module),
        nn.modules.module.register_module_forward_hook(count._leave_module, always_call=True),
        register_optimizer_step_post_hook(count._after_step),
    ]
    try:
        with count:
            yield count
    finally:
        for hook in hooks:
            hook.remove()
