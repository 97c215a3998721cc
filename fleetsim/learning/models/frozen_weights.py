"""Frozen weights of a network: those with `requires_grad=False` when it was made.

They are no part of the flat vector. Server and clients hold the same, so nothing may change them,
nor which weights are frozen.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from fleetsim.errors import PluginError
from fleetsim.learning.models.flat_vector import frozen

_CHANGED = (
    "changes {name} in training, which has requires_grad=False; make it a float buffer, which"
    " clients send, or train it"
)


class FrozenWeights:
    """Copy of the frozen weights of a network as they were when this was made."""

    def __init__(self, module: nn.Module) -> None:
        self._kept = {name: value.detach().clone() for name, value in frozen(module).items()}

    def fault(self, module: nn.Module) -> str | None:
        """Return what has changed about them in the same network or a copy of it; None: nothing."""
        now = frozen(module)
        for name in sorted(now.keys() ^ self._kept.keys()):
            return _toggled(name, is_frozen=name in now)
        for name, value in now.items():
            if not torch.equal(value, self._kept[name]):
                return _CHANGED.format(name=name)
        return None


@contextmanager
def left_alone(
    module: nn.Module, error: Callable[[str], Exception] = PluginError
) -> Iterator[None]:
    """Check that a block leaves the frozen weights alone, by their marks: no number is read.

    Raises the `error` if it changes one in place, or which weights are frozen.
    """
    before = _marks(module)
    yield
    for (name, was), now in zip(before.items(), _marks(module).values(), strict=True):
        if was != now:
            is_toggle = None in (was, now)
            message = _toggled(name, is_frozen=was is None) if is_toggle else _CHANGED
            raise error(f"{type(module).__name__} {message.format(name=name)}")


def _marks(module: nn.Module) -> dict[str, int | None]:
    """Return torch's number of changes of each frozen weight, None of each trained one."""
    return {
        name: None if weight.requires_grad else weight._version
        for name, weight in module.named_parameters()
    }


def _toggled(name: str, *, is_frozen: bool) -> str:
    verb = "freezes" if is_frozen else "unfreezes"
    return (
        f"{verb} {name} (requires_grad) in training; which weights are trained is set when the"
        " network is made, and stays"
    )


def weights_text(module: nn.Module) -> str:
    """Return the bytes of a network's weights by what happens to them, in one line.

    >>> net = nn.Sequential(nn.Linear(3, 2).requires_grad_(False), nn.Linear(2, 2))
    >>> weights_text(net)
    'weights 24 byte trained, 32 byte frozen, 0 byte of buffers'
    """
    trained = sum(weight.nbytes for weight in module.parameters() if weight.requires_grad)
    kept = sum(weight.nbytes for weight in frozen(module).values())
    state = module.state_dict(keep_vars=True).values()
    buffers = sum(value.nbytes for value in state if not isinstance(value, nn.Parameter))
    return f"weights {trained:,} byte trained, {kept:,} byte frozen, {buffers:,} byte of buffers"


def frozen_sha256(module: nn.Module) -> str | None:
    """Return the SHA-256 of names, shapes and values of the frozen weights; None without any."""
    weights = frozen(module)
    if not weights:
        return None
    digest = hashlib.sha256()
    for name, value in weights.items():
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
