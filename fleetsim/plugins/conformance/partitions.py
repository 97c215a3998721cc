"""Rehearsal of a partition: some samples and numbers of clients, each split twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fleetsim import rng
from fleetsim.plugins.conformance.watched_calls import WatchedCalls, same
from fleetsim.plugins.partitions import SPLITS_APART, split_fault

_CASES = ((240, 8), (500, 3), (90, 1))
"""Numbers of samples and of clients."""
_NUM_LABELS = 6


def check_partition(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that partitions of one class keep the contract.

    Args:
        make: function that makes a new one.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    for num_samples, num_clients in _CASES:
        labels = rng.stream(1, "plug-in check/labels").integers(0, _NUM_LABELS, num_samples)
        answers = []
        for own in (make(), make()):
            generator = rng.stream(1, "plug-in check/split", num_clients)
            given = labels.copy()
            answer = calls.call(
                own, "split", given, num_clients, generator, names=("labels", "num_clients")
            )
            says = split_fault(answer, num_samples=num_samples, num_clients=num_clients)
            if says is not None:
                of = f"{num_samples} samples and num_clients={num_clients}"
                raise calls.refused(f"split returned {says} (of {of})")
            answers.append([np.asarray(each) for each in answer])
        if not same(*answers):
            raise calls.refused(SPLITS_APART)
