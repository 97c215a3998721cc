"""FLOP of one call, counted by operation class while torch computes it.

The formulas are those of `counted_operations`. This mode adds launches, and takes what it does not
know apart into operations that it does.

A call's batches are the outermost forward passes of its modules; hooks count them and the
parameters that optimizers update.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from fleetsim.contracts import CountedWork
from fleetsim.user.flop.counted_operations import has_formula, product


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
