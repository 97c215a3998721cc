"""Flat vector of a network's weights with its layout, and frozen weights.

It is defined in docs/models/learning.md: all that changes in a run, which are the trained weights
and the buffers, but no frozen weights. Integer buffers are not in it: the networks of `networks`
leave out BatchNorm's count of batches, because nothing reads it where the running statistics decay
at a fixed rate.

Frozen weights are those with `requires_grad=False` when the network was made. Server and clients
hold the same, so nothing may change them, nor which weights are frozen.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fleetsim.contracts import Parameters
from fleetsim.errors import PluginError


@dataclass(frozen=True, slots=True)
class StateEntry:
    """Place of one entry of the state dict in the flat vector."""

    name: str
    """Key in the state dict, such as `fc1.weight`."""
    shape: tuple[int, ...]
    start: int
    stop: int
    is_trained: bool
    """False for a buffer: it has no gradient."""


def layout(module: nn.Module) -> tuple[StateEntry, ...]:
    """Return the slots of the flat vector in order; together they cover [0, P) without gaps."""
    trained = {name for name, _ in module.named_parameters()}
    slots = []
    start = 0
    for name, value in _entries(module).items():
        stop = start + value.numel()
        slots.append(StateEntry(name, tuple(value.shape), start, stop, name in trained))
        start = stop
    return tuple(slots)


def flatten(module: nn.Module) -> Parameters:
    """Return the flat vector [P] of the weights: a copy, float32 as the networks are."""
    return join(module, _entries(module))


def join(module: nn.Module, values: Mapping[str, Tensor]) -> Parameters:
    """Return the flat vector [P] of one value per state-dict entry, zero for an entry without."""
    parts = [
        values[name].reshape(-1) if name in values else torch.zeros_like(entry).reshape(-1)
        for name, entry in _entries(module).items()
    ]
    flat: Parameters = torch.cat(parts).cpu().numpy()
    return flat


def load_flat(module: nn.Module, vector: Parameters) -> None:
    """Copy a flat vector [P] into the module's parameters and buffers."""
    slots = layout(module)
    if vector.shape != (slots[-1].stop,):
        raise ValueError(f"a flat vector of shape {vector.shape} for {slots[-1].stop} weights")
    entries = _entries(module)
    device = entries[slots[0].name].device
    # In the vector's own memory where torch allows that: a large model would be there twice.
    flat = torch.from_numpy(vector if vector.flags.writeable else vector.copy()).to(device)
    for slot in slots:
        entries[slot.name].copy_(flat[slot.start : slot.stop].view(slot.shape))


def travelling(module: nn.Module) -> dict[str, Tensor]:
    """Return the entries of the state dict that clients and server exchange, detached, in order.

    Those of a network without frozen weights are all. Those of another are each trained weight
    once, although it may have two names, and the buffers.
    """
    state: dict[str, Tensor] = module.state_dict(keep_vars=True)
    if frozen(module):
        names = {id(value): name for name, value in reversed(state.items())}
        state = {
            name: value
            for name, value in state.items()
            if names[id(value)] == name and not _is_frozen(value)
        }
    return {name: value.detach() for name, value in state.items()}


def frozen(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the frozen weights of a network by name, each once.

    >>> list(frozen(nn.Sequential(nn.Linear(3, 2).requires_grad_(False), nn.Linear(2, 2))))
    ['0.weight', '0.bias']
    """
    return {name: value for name, value in module.named_parameters() if _is_frozen(value)}


def _is_frozen(value: Tensor) -> bool:
    return isinstance(value, nn.Parameter) and not value.requires_grad


def _entries(module: nn.Module) -> dict[str, Tensor]:
    """Return the floating-point entries that travel, detached, in the module's memory."""
    return {name: value for name, value in travelling(module).items() if value.is_floating_point()}


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
