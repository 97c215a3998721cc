"""Name of a part of the user's own, its faults, and arrays that it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import PluginError


@dataclass(frozen=True, slots=True)
class UserPart:
    """Part of the user's own among those that a server calls, as messages name it."""

    name: str
    """Name and origin, as in `--plugin mine:Mine`."""
    file: str | None
    """File that defines it; None without one, as in a notebook."""

    def error(self, text: str) -> PluginError:
        """Return the error about a wrong answer, which `text` describes."""
        return PluginError(f"{self.name}: {text}" + (f" ({self.file})" if self.file else ""))


def are_plain_arrays(given: object) -> TypeGuard[dict[str, Any]]:
    """Return whether something is a dict of arrays without objects, by name."""
    return isinstance(given, dict) and all(
        isinstance(name, str) and isinstance(array, np.ndarray) and not array.dtype.hasobject
        for name, array in given.items()
    )


def form_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and number type of arrays by name."""
    return {name: (array.shape, str(array.dtype)) for name, array in sorted(arrays.items())}
