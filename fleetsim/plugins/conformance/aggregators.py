"""Rehearsal of an aggregator: three versions of a small model, twice, and once with a restart."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from fleetsim import rng
from fleetsim.contracts import Outcome, Parameters, Purpose, Report
from fleetsim.plugins.aggregators import DECLARATION, AggregatorPlugins, model_fault, state_fault
from fleetsim.plugins.conformance.watched_calls import WatchedCalls, same

_SIZE = 6
_NUM_CLIENTS = 7
_NUM_VERSIONS = 4
_APART = (0.01, 1.0, 100.0)
"""Factors by which two updates are moved apart: by less and by more than limits of single ones."""
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
    _check_sums(make, calls)
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


def _check_sums(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that an aggregator which says that it needs sums alone gets by with them.

    Two updates that say the same beside their models are moved apart, by little and by much, so
    that no weighted sum changes. Then all are summed, as for `server.privacy`.
    """
    if getattr(make(), DECLARATION, True):
        return
    base = _model(0)
    plain = [one._replace(client=k, num_samples=10) for k, one in enumerate(_reports(0))]
    plain = [one._replace(finished_at_s=60.0) for one in plain]
    expected = _aggregated(make(), calls, base, plain)
    apart = rng.stream(1, "plug-in check/apart").normal(size=_SIZE).astype(np.float32)
    for scale in _APART:
        moved = list(plain)
        for index, sign in ((0, 1.0), (3, -1.0)):
            vector: Any = plain[index].vector
            moved[index] = plain[index]._replace(vector=vector + np.float32(sign * scale) * apart)
        found = _aggregated(make(), calls, base, moved)
        if not np.allclose(found, expected, rtol=0.0, atol=1e-5 * max(1.0, scale)):
            raise calls.refused(
                f"says {DECLARATION} = False, and aggregate gives another model for updates of the"
                " same sums; aggregate by sums alone, or leave that out"
            )
    _aggregated(make(), calls, base, [plain[0]._replace(num_samples=1, loss=None)])


def _aggregated(
    own: Any, calls: WatchedCalls, base: Parameters, reports: list[Report]
) -> Parameters:
    """Return the model that a new aggregator makes of reports."""
    answer = calls.call(own, "aggregate", base, reports, names=("base", "a report"))
    says = model_fault(answer, base)
    if says is not None:
        raise calls.refused(f"aggregate returned {says}")
    return np.array(answer, dtype=np.float32)


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
