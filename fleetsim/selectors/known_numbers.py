"""Diagnostics of a selector without the numbers that it does not know."""

import numpy as np

from fleetsim.contracts import FloatArray


def known(**values: float | FloatArray | None) -> dict[str, float | list[float]]:
    """Return the values that are finite numbers, or lists of them; others are left out.

    >>> known(expected=2.0, realised=float("nan"), loss=None, ascent=np.array([1.0, 3.0]))
    {'expected': 2.0, 'ascent': [1.0, 3.0]}
    """
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else float(value)
        for name, value in values.items()
        if value is not None and np.size(value) > 0 and bool(np.isfinite(value).all())
    }
