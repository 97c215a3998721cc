"""Fixtures that make views, reports and outcomes as a server gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fleetsim.contracts import FleetView, Outcome, Purpose, Report, RoundOutcome, RoundView

MODEL = np.zeros(3, dtype=np.float32)


def make_fleet(num_samples: Sequence[int], *, cohort: int = 2, seed: int = 7) -> FleetView:
    return FleetView(
        seed=seed,
        num_samples=np.array(num_samples, dtype=np.int64),
        cohort=cohort,
        epochs=1,
        batch_size=10,
        learning_rate=0.1,
        planned_rounds=None,
        parameters=MODEL,
    )


def make_view(
    fleet: FleetView,
    *,
    round_: int = 1,
    wanted: int | None = None,
    candidates: Sequence[int] | None = None,
    reports: Sequence[Report] = (),
    stage: int = 0,
) -> RoundView:
    ids = np.arange(fleet.num_samples.size) if candidates is None else np.array(candidates)
    ids = ids.astype(np.int64)
    return RoundView(
        round=round_,
        now_s=100.0 * round_,
        wanted=fleet.cohort if wanted is None else wanted,
        candidates=ids,
        num_samples=fleet.num_samples[ids],
        parameters=MODEL,
        reports=tuple(reports),
        stage=stage,
    )


def make_report(
    client: int,
    *,
    loss: float | None = None,
    duration_s: float = 10.0,
    num_samples: int = 10,
    outcome: Outcome = Outcome.DELIVERED,
    purpose: Purpose = Purpose.TRAIN,
) -> Report:
    """A report whose per-sample losses are all `loss`, so that mean and rms are the same."""
    known = loss if outcome is Outcome.DELIVERED else None
    return Report(
        client=client,
        purpose=purpose,
        outcome=outcome,
        dispatched_at_s=5.0,
        finished_at_s=5.0 + duration_s,
        num_samples=num_samples,
        loss=known,
        loss_rms=known,
    )


def make_outcome(round_: int, reports: Sequence[Report]) -> RoundOutcome:
    return RoundOutcome(
        round=round_,
        started_at_s=0.0,
        finished_at_s=50.0,
        selected=np.array([report.client for report in reports], dtype=np.int64),
        reports=tuple(reports),
        aggregated=any(report.is_delivered for report in reports),
        parameters=MODEL,
    )


@pytest.fixture
def fleet_of() -> Callable[..., FleetView]:
    return make_fleet


@pytest.fixture
def view_of() -> Callable[..., RoundView]:
    return make_view


@pytest.fixture
def report_of() -> Callable[..., Report]:
    return make_report


@pytest.fixture
def outcome_of() -> Callable[..., RoundOutcome]:
    return make_outcome
