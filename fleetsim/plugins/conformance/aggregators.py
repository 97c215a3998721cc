"""Rehearsal of an aggregator: three versions of a small model, twice, and once with a restart."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from fleetsim import rng
from fleetsim.contracts import Outcome, Parameters, Purpose, Report
from fleetsim.plugins.aggregators import AggregatorPlugins, model_fault, state_fault
from fleetsim.plugins.conformance.watched_calls import WatchedCalls, same

_SIZE = 6
_NUM_CLIENTS = 7
_NUM_VERSIONS = 4
_RESTART = 2
"""Number of versions after which the restarted aggregator takes over."""


def check_aggregator(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that aggregators of one class keep the contract.

    Args:
        make: function that makes a new one.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    first, state = _versions(make(), calls, restarts_after=_RESTART)
    second, _ = _versions(make(), calls)
    for number, (one, two) in enumerate(zip(first, second, strict=True), start=1):
        if not same(one, two):
            raise calls.refused(
                f"aggregate gives two results for version {number} from equal reports; it must use"
                " neither a clock, nor unseeded draws, nor what an earlier object has left"
            )
    after = make()
    if state is not None:
        calls.call(after, "restore", state)
    rest, _ = _versions(after, calls, begins_at=_RESTART)
    for number, (one, two) in enumerate(
        zip(first[_RESTART:], rest, strict=True), start=_RESTART + 1
    ):
        if not same(one, two):
            lacks = (
                "keeps something between calls, and has no state and restore"
                if state is None
                else "is not continued by restore(state()): they must hold all that it keeps"
            )
            says = f"aggregate gives another version {number} after a restart; it {lacks}"
            raise calls.refused(says)


def _versions(
    own: Any, calls: WatchedCalls, *, begins_at: int = 0, restarts_after: int | None = None
) -> tuple[list[Parameters], Any]:
    """Return the models that an aggregator makes, and a copy of its state in between if asked."""
    made, state = [], None
    for number in range(begins_at, _NUM_VERSIONS):
        base, reports = _model(number), _reports(number)
        answer = calls.call(own, "aggregate", base, reports, names=("base", "a report"))
        says = model_fault(answer, base)
        if says is None and not np.isfinite(answer).all():
            says = "numbers that are not finite, from finite models"
        if says is not None:
            raise calls.refused(f"aggregate returned {says}")
        made.append(np.array(answer, dtype=np.float32))
        if number + 1 == restarts_after and AggregatorPlugins.has(own, "state"):
            state = calls.call(own, "state")
            says = state_fault(state)
            if says is not None:
                raise calls.refused(f"state returned {says}")
            state = copy.deepcopy(state)
    return made, state


def _model(number: int) -> Parameters:
    return rng.stream(1, "plug-in check/model", number).normal(size=_SIZE).astype(np.float32)


def _reports(number: int) -> list[Report]:
    """Return the answers of all clients to a version, near its model."""
    base = _model(number)
    draws = rng.stream(1, "plug-in check/reports", number)
    return [
        Report(
            client=client,
            purpose=Purpose.TRAIN,
            outcome=Outcome.DELIVERED,
            dispatched_at_s=60.0 * number,
            finished_at_s=60.0 * number + 10.0 + client,
            num_samples=10 + client,
            loss=1.0,
            vector=(base + 0.1 * draws.normal(size=_SIZE)).astype(np.float32),
            base=base,
        )
        for client in draws.permutation(_NUM_CLIENTS).tolist()
    ]
