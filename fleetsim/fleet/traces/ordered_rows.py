"""Rows of several owners in the order of time: repeats, disorder, and values that are held."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, IntArray


def begins(*keys: NDArray[Any]) -> BoolArray:
    """Return True for rows [R] that differ from the row above in one of the keys, each [R].

    >>> begins(np.array([0, 0, 0, 1]), np.array([5, 5, 7, 7])).tolist()
    [True, False, True, True]
    """
    is_new: BoolArray = np.ones(keys[0].size, dtype=np.bool_)
    is_new[1:] = np.logical_or.reduce([np.diff(key) != 0 for key in keys])
    return is_new


def durations(at: IntArray, offsets: IntArray, span: IntArray) -> IntArray:
    """Return how long each row of records lasts, up to the next or the end of its record.

    >>> durations(np.array([0, 4, 0]), np.array([0, 2, 3]), np.array([10, 7])).tolist()
    [4, 6, 7]
    """
    ends = np.append(at[1:], 0)
    ends[offsets[1:] - 1] = span
    return ends - at


def num_unordered(owner: IntArray, at: NDArray[Any]) -> int:
    """Return the number of rows that are earlier than the row above of the same owner.

    >>> num_unordered(np.array([0, 1, 0, 0]), np.array([5, 1, 4, 9]))
    1
    """
    rows = np.argsort(owner, kind="stable")
    return int(np.count_nonzero(~begins(owner[rows])[1:] & (np.diff(at[rows]) < 0)))


def held(values: FloatArray, owner: IntArray, at_first: float = 0.0) -> FloatArray:
    """Replace NaN by the last value above of the same owner, or `at_first` where there is none.

    >>> held(np.array([np.nan, 2.0, np.nan, np.nan]), np.array([0, 0, 0, 1])).tolist()
    [0.0, 2.0, 2.0, 0.0]
    """
    at = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(values.size)))
    source = np.maximum(at, 0)
    return np.where((at >= 0) & (owner[source] == owner), values[source], at_first)


def last_lasting(at: IntArray, alone: int) -> int:
    """Return how long the last of these samples lasts: the median of the others, or `alone`."""
    return max(1, int(np.median(np.diff(at)))) if at.size > 1 else alone
