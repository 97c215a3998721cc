"""FLOP of one call, counted by operation class while torch computes it.

The formulas are those of torch's `FlopCounterMode`, whose registry is asked for each operation.
This mode sorts them into the classes of the device files, counts launches, and knows what torch's
counter does not: layers of recurrent networks and attention on CPUs.

A call's batches are the outermost forward passes of its modules; hooks count them and the
parameters that optimizers update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from fleetsim.contracts import CountedWork

_aten = torch.ops.aten


def _rnn_flop(inputs: Any, weights: Any, hidden_weights: Any) -> int:
    """Return the FLOP of a recurrent layer: all its weights at every step of every sample."""
    num_weights = int(weights.numel()) + int(hidden_weights.numel())
    return int(2 * prod(inputs.shape[:-1]) * num_weights)


_attention_flop: Callable[..., int] = sdpa_flop_count
_attention_backward_flop: Callable[..., int] = sdpa_backward_flop_count


def _vector_flop(matrix: Any) -> int:
    return 2 * int(matrix.numel())


_MORE: dict[Any, tuple[str, Callable[..., int]]] = {
    _aten.mkldnn_rnn_layer: ("rnn", lambda x, w, v, *_, **__: _rnn_flop(x, w, v)),
    _aten.mkldnn_rnn_layer_backward: ("rnn", lambda x, w, v, *_, **__: 2 * _rnn_flop(x, w, v)),
    _aten._scaled_dot_product_flash_attention_for_cpu: (
        "gemm",
        lambda q, k, v, *_, **__: _attention_flop(q.shape, k.shape, v.shape),
    ),
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        "gemm",
        lambda g, q, k, v, *_, **__: _attention_backward_flop(g.shape, q.shape, k.shape, v.shape),
    ),
    _aten.mv: ("gemm", lambda matrix, _: _vector_flop(matrix)),
    _aten.addmv: ("gemm", lambda _, matrix, *__, **___: _vector_flop(matrix)),
    _aten.dot: ("gemm", lambda vector, _: _vector_flop(vector)),
}
"""Operations that torch's registry does not know, with their class and FLOP."""


def _convolution_class(weight: Any, groups: int, is_transposed: bool) -> str:
    channels = weight.shape[0] if is_transposed else weight.shape[1] * groups
    return "depthwise" if groups == channels > 1 else "conv"


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
        packet = func._overloadpacket
        known = packet in flop_registry or packet in _MORE
        if not known and func is not torch.ops.prim.device.default:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **kwargs)
        if known:
            self._count(packet, args, kwargs, out)
        return out

    def _count(self, packet: Any, args: Any, kwargs: Any, out: Any) -> None:
        self.launches += 1
        if packet in _MORE:
            kind, formula = _MORE[packet]
            self.flop[kind] += formula(*args, **kwargs)
            return
        # The registry's gradients of grouped convolutions are those without groups.
        if packet is _aten.convolution or packet is _aten._convolution:
            self._convolution(args[0], args[1], out, args[8], args[6], 1)
        elif packet is _aten.convolution_backward:
            # Both gradients are one call: of the inputs, where they are wanted, and the weights.
            num = int(sum(args[10][:2]))
            self.launches += num - 1
            self._convolution(args[1], args[2], args[0], args[9], args[7], num)
        else:
            self.flop["gemm"] += int(flop_registry[packet](*args, **kwargs, out_val=out))

    def _convolution(
        self, inputs: Any, weight: Any, out: Any, groups: int, is_transposed: bool, times: int
    ) -> None:
        """Count a convolution: each output, or each input if transposed, meets a kernel."""
        met = inputs if is_transposed else out
        flop = 2 * int(met.numel()) * prod(weight.shape[1:])
        self.flop[_convolution_class(weight, groups, is_transposed)] += times * flop

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
