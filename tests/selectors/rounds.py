"""Views, reports and outcomes as a server gives them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fleetsim.contracts import (
    FleetView,
    Outcome,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    RoundOutcome,
    RoundView,
    Selector,
)
from fleetsim.selectors import SelectorSettings

MODEL = np.zeros(3, dtype=np.float32)


def fleet_of(
    num_samples: Sequence[int], *, cohort: int = 2, seed: int = 7, **more: Any
) -> FleetView:
    fields: dict[str, Any] = {"epochs": 1, "planned_rounds": None, "parameters": MODEL} | more
    return FleetView(
        seed=seed,
        num_samples=np.array(num_samples, dtype=np.int64),
        cohort=cohort,
        batch_size=10,
        learning_rate=0.1,
        **fields,
    )


def met(
    settings: SelectorSettings, num_samples: Sequence[int], **fleet: Any
) -> tuple[FleetView, Any]:
    """Return a fleet and a new selector that has met it, and asked nothing."""
    view = fleet_of(num_samples, **fleet)
    selector = settings.build()
    assert list(selector.setup(view)) == []
    return view, selector


def probed(
    selector: Selector, fleet: FleetView, answer: Callable[[ProbeRequest, int], Report], **view: Any
) -> tuple[list[list[ProbeRequest]], RoundView]:
    """Probe until nothing is asked; return the requests of each stage and the last view.

    `answer` gives the report to a request and the number of its stage, from 0.
    """
    stages: list[list[ProbeRequest]] = []
    reports: list[Report] = []
    while requests := list(
        selector.probe(view_of(fleet, reports=reports, stage=len(stages), **view))
    ):
        stages.append(requests)
        reports += [answer(request, len(stages) - 1) for request in requests]
    return stages, view_of(fleet, reports=reports, **view)


def view_of(
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


def report_of(
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


def outcome_of(round_: int, reports: Sequence[Report]) -> RoundOutcome:
    return RoundOutcome(
        round=round_,
        started_at_s=0.0,
        finished_at_s=50.0,
        selected=np.array([report.client for report in reports], dtype=np.int64),
        reports=tuple(reports),
        aggregated=any(report.is_delivered for report in reports),
        parameters=MODEL,
    )


def resources_of(**known: Any) -> Resources:
    """Resources of an idle client."""
    usual: dict[str, Any] = {
        "flop_per_s": 1e9,
        "ram_byte": 4,
        "load_fraction": 0.0,
        "samples_per_s": 1.0,
        "down_bit_per_s": 1e6,
        "up_bit_per_s": 1e6,
    }
    return Resources(**usual | known, is_charging=False, is_unmetered=True, battery_fraction=None)
