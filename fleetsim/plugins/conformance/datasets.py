"""Rehearsal of a data set: loaded twice, and read twice where samples are made at each access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fleetsim.errors import DataError
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.own.accessed_inputs import AccessedInputs
from fleetsim.plugins.conformance.watched_calls import WatchedCalls
from fleetsim.plugins.datasets import loaded

_SEED, _NUM_CLIENTS = 1, 5
_NUM_READ = 50
"""Samples that are made twice where they are made at each access."""
_ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels", "owner")


def check_dataset(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that data sets of one class keep the contract.

    Args:
        make: function that makes a new one.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    first, second = (calls.watched("load", lambda: _loaded(make(), calls)) for _ in range(2))
    if first.accessed is not None and second.accessed is not None:
        _check_access(first.accessed, second.accessed, calls)
    for name in _ARRAYS:
        one, two = getattr(first, name), getattr(second, name)
        if not _equal(one, two):
            raise calls.refused(
                f"load gives other {name} the second time; it must use neither a clock, nor draws"
                " without a seed of its own"
            )
    if (first.num_classes, first.vocabulary_size) != (second.num_classes, second.vocabulary_size):
        raise calls.refused("load gives another number of classes or tokens the second time")


def _loaded(part: Any, calls: WatchedCalls) -> Dataset:
    try:
        return loaded(part, calls.said, seed=_SEED, num_clients=_NUM_CLIENTS)
    except DataError as fault:
        raise calls.refused(str(fault).removeprefix(f"{calls.said}: ")) from fault


def _check_access(first: AccessedInputs, second: AccessedInputs, calls: WatchedCalls) -> None:
    """Check that samples which are made at each access depend on its address alone."""
    rows = np.arange(min(_NUM_READ, len(first)))
    try:
        one, two = (
            each.taken(order, [0] * len(rows), seed=_SEED, address=(0,))
            for each, order in ((first, rows), (second, rows[::-1]))
        )
    except DataError as fault:
        raise calls.refused(str(fault).removeprefix(f"{calls.said}: ")) from fault
    unlike = np.flatnonzero((one != two[::-1]).reshape(len(rows), -1).any(axis=1))
    if unlike.size:
        raise calls.refused(
            f"item {first.items[unlike[0]]} gives two samples at one address; what it draws must"
            " come from the global generators, which are seeded for it, and nothing from earlier"
            " reads"
        )


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, ByteImages) and isinstance(two, ByteImages):
        return (one.mean, one.std) == (two.mean, two.std) and np.array_equal(one.pixels, two.pixels)
    return type(one) is type(two) and np.array_equal(one, two)
