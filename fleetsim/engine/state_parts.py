"""Parts of a state: the entries of each under the prefix of its name."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from fleetsim.contracts import State


def joined(parts: Mapping[str, State]) -> State:
    """Return one state of all parts, by their names."""
    return {f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()}


def part_of(state: State, name: str) -> State:
    """Return the part of this name, empty if the state has none."""
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }


def are_plain_arrays(given: object) -> TypeGuard[dict[str, Any]]:
    """Return whether something is a dict of arrays without objects, by name."""
    return isinstance(given, dict) and all(
        isinstance(name, str) and isinstance(array, np.ndarray) and not array.dtype.hasobject
        for name, array in given.items()
    )
