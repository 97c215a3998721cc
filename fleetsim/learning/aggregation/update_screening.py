"""Refusal of updates that would ruin the global model.

One diverged client is enough to ruin a mean. The server checks each update by itself:

* a model with a weight that is not finite is always refused;
* where a bound is set, a model too far from the one that was sent is refused:
  |w_k - w|_2 > max_update_norm
"""

import math
from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import Parameters

_BLOCK = 16_384
"""Weights that are squared at a time: they stay in a core's second-level cache."""


def refusal_reasons(
    bases: Sequence[Parameters],
    vectors: Sequence[Parameters],
    *,
    max_update_norm: float | None = None,
) -> list[str | None]:
    """Return for each delivered model the reason to refuse it; None if it may be aggregated.

    `bases` [P] were sent to the clients and `vectors` [P] came back; a bound of None is none.

    >>> base = np.zeros(2, dtype=np.float32)
    >>> refusal_reasons([base], [np.array([3, 4], dtype=np.float32)], max_update_norm=4.5)
    ['its update has norm 5, more than 4.5']
    >>> sent = np.array([[3, np.nan], [3, 4]], dtype=np.float32)
    >>> refusal_reasons([base, base], sent)
    ['1 of its 2 weights are not finite', None]
    """
    with np.errstate(over="ignore"):  # squares of huge weights
        return [
            _refusal_reason(base, vector, max_update_norm)
            for base, vector in zip(bases, vectors, strict=True)
        ]


def _refusal_reason(
    base: Parameters, vector: Parameters, max_update_norm: float | None
) -> str | None:
    if vector.shape != base.shape:
        raise ValueError(f"{vector.shape} weights were sent for a model of {base.shape}")
    # The usual case, in one step: where a weight is not finite, the sum of squares is not either.
    if not math.isfinite(vector.dot(vector)):
        num_broken = vector.size - int(np.count_nonzero(np.isfinite(vector)))
        if num_broken:
            return f"{num_broken} of its {vector.size} weights are not finite"
    if max_update_norm is not None:
        norm = update_norm(base, vector)
        if norm > max_update_norm:
            return f"its update has norm {norm:.6g}, more than {max_update_norm:.6g}"
    return None


def update_norm(base: Parameters, vector: Parameters) -> float:
    """Return the Euclidean norm of `vector - base`, both [P], summed in float64."""
    squares = 0.0
    for start in range(0, base.size, _BLOCK):
        end = start + _BLOCK
        change = np.subtract(vector[start:end], base[start:end], dtype=np.float64)
        squares += float(np.square(change).sum())
    return math.sqrt(squares)
