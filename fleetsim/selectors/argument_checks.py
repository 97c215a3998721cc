"""Checks of the arguments of selectors' equations."""

import numpy as np
import numpy.typing as npt


def require_all(rule: str, values: npt.ArrayLike, is_good: npt.ArrayLike) -> None:
    """Refuse values [...] where any breaks the rule.

    >>> require_all("rates must be positive", [1.0, 2.0], [True, True])
    >>> require_all("rates must be positive", [1.0, -2.0], [True, False])
    Traceback (most recent call last):
    ValueError: rates must be positive, got -2.0
    """
    is_bad = ~np.asarray(is_good, dtype=np.bool_)
    if is_bad.any():
        raise ValueError(f"{rule}, got {np.asarray(values)[is_bad].flat[0]}")


def require_lengths(num: int, **arrays: npt.NDArray[np.generic]) -> None:
    """Refuse arrays that do not have one entry per client.

    >>> require_lengths(2, keys=np.zeros(3))
    Traceback (most recent call last):
    ValueError: keys must have one entry for each of 2 clients, got shape (3,)
    """
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[0] != num:
            raise ValueError(
                f"{name} must have one entry for each of {num} clients, got shape {array.shape}"
            )
