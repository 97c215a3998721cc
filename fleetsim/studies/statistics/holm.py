"""Holm's adjustment of p-values for several comparisons.

Holm, Scandinavian Journal of Statistics 6:65-70, 1979: the i-th smallest of m p-values is
multiplied by m - i + 1 and is never less than the one before it. Rejecting what is at most alpha
then has a false rejection in at most a share alpha of families, whatever their dependence; so arms
may share their baseline.
"""

import numpy as np

from fleetsim.contracts import FloatArray


def holm(p: FloatArray) -> FloatArray:
    """Return the adjusted p-values of families [..., m]; NaN stays NaN and does not count.

    >>> holm(np.array([0.01, 0.04, np.nan, 0.03])).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    if p.shape[-1] == 0:
        return p
    order = np.argsort(p, axis=-1)  # NaN comes last
    num = np.sum(~np.isnan(p), axis=-1, keepdims=True)
    factor = np.maximum(num - np.arange(p.shape[-1]), 1)
    raised = np.maximum.accumulate(np.take_along_axis(p, order, axis=-1) * factor, axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(raised, 1.0), axis=-1)
    return adjusted
