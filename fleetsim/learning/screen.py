"""Which updates a server refuses to aggregate, and why.

One diverged client is enough to ruin a mean. A server sees the update alone, so that is what it
judges: a model with a weight that is not finite is always refused, one that lies too far from the
model that was sent is refused where a bound is set:

    |w_k - w|_2 > max_update_norm
"""

from __future__ import annotations

import math

import numpy as np

from fleetsim.contracts import Parameters

_BLOCK = 16_384
"""Weights squared at a time: they stay in a core's second-level cache."""


def why_refused(
    base: Parameters, vector: Parameters, *, max_update_norm: float | None = None
) -> str | None:
    """Why a model that a client sent must not be aggregated; None if it may be.

    Args:
        base: the model that the client was sent [P].
        vector: the model that it sent back [P].
        max_update_norm: largest Euclidean norm of their difference; None: no bound.

    Raises:
        ValueError: the two differ in shape.

    >>> base = np.zeros(2, dtype=np.float32)
    >>> why_refused(base, np.array([3, 4], dtype=np.float32), max_update_norm=4.5)
    'its update has norm 5, more than 4.5'
    >>> why_refused(base, np.array([3, np.nan], dtype=np.float32))
    '1 of its 2 weights are not finite'
    """
    if vector.shape != base.shape:
        raise ValueError(f"{vector.shape} weights were sent for a model of {base.shape}")
    is_finite = np.isfinite(vector)
    if not np.logical_and.reduce(is_finite):  # what `all` does, without its detour
        num_broken = vector.size - int(np.count_nonzero(is_finite))
        return f"{num_broken} of its {vector.size} weights are not finite"
    if max_update_norm is not None:
        norm = update_norm(base, vector)
        if norm > max_update_norm:
            return f"its update has norm {norm:.6g}, more than {max_update_norm:.6g}"
    return None


def update_norm(base: Parameters, vector: Parameters) -> float:
    """Euclidean norm of `vector - base`, both [P], summed in float64."""
    squares = 0.0
    for start in range(0, base.size, _BLOCK):
        end = start + _BLOCK
        change = np.subtract(vector[start:end], base[start:end], dtype=np.float64)
        squares += float(np.square(change).sum())
    return math.sqrt(squares)
