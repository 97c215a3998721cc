"""Flat vector of a network's weights, and its layout.

It is defined in docs/models/learning.md: all that changes in a run, which are the trained weights
and the buffers, but no frozen weights. Integer buffers are not in it: the networks of `networks`
leave out BatchNorm's count of batches, because nothing reads it where the running statistics decay
at a fixed rate.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fleetsim.contracts import Parameters


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
    flat = torch.tensor(vector, device=device)
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
