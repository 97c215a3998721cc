"""Requests to evaluate a model, and the answers as columns over the fleet.

Losses and accuracies are columns [N], NaN where there is none: nothing was delivered, the run does
not train, or the number is not finite.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fleetsim.contracts import (
    Evaluation,
    FloatArray,
    IntArray,
    Parameters,
    ProbeRequest,
    Report,
    Resources,
    RoundView,
    Work,
    WorkKind,
)


def unasked(view: RoundView) -> IntArray:
    """Return the candidates without a report since the last choice, not even of a failure."""
    if not view.reports:
        return view.candidates
    heard_of = [report.client for report in view.reports]
    return view.candidates[~np.isin(view.candidates, heard_of)]


def requests(clients: IntArray, work: Work, **options: Any) -> Sequence[ProbeRequest]:
    """Return a request of the same work to each client; options are those of `ProbeRequest`."""
    return [ProbeRequest(client, work, **options) for client in clients.tolist()]


def evaluations(clients: IntArray, **options: Any) -> Sequence[ProbeRequest]:
    """Return requests to evaluate a model on all own samples, by default the global model."""
    return requests(clients, Work(WorkKind.EVALUATE), **options)


def resource_requests(clients: IntArray, upload_byte: int) -> Sequence[ProbeRequest]:
    """Return requests for the resources of clients, without the model."""
    return requests(
        clients,
        Work(WorkKind.NONE),
        needs_model=False,
        upload_byte=upload_byte,
        uploads_vector=False,
        asks_resources=True,
    )


def resources(reports: Iterable[Report]) -> dict[int, Resources]:
    """Return the resources that clients reported, by client."""
    return {
        report.client: report.resources
        for report in _delivered(reports)
        if report.resources is not None
    }


def losses(reports: Iterable[Report], num_clients: int) -> FloatArray:
    """Return the mean loss that each client reported last [N]."""
    return _column(((report.client, report.loss) for report in _delivered(reports)), num_clients)


def accuracies(reports: Iterable[Report], num_clients: int) -> FloatArray:
    """Return the accuracy that each client reported last, its opinion of the model [N]."""
    reported = ((report.client, report.accuracy) for report in _delivered(reports))
    return _column(reported, num_clients)


def accuracy_of(evaluation: Evaluation | None) -> float:
    """Return the accuracy of the global model; NaN where it is not known."""
    known = None if evaluation is None else evaluation.accuracy
    return known if known is not None and math.isfinite(known) else math.nan


def average_model(reports: Iterable[Report]) -> Parameters | None:
    """Return the mean of the finite models [P] that came back, by samples; None without one."""
    models = [
        (report.num_samples, report.vector)
        for report in _delivered(reports)
        if report.vector is not None and np.all(np.isfinite(report.vector))
    ]
    if not models:
        return None
    total = sum(num_samples for num_samples, _ in models)
    mean = np.zeros(models[0][1].size)
    for num_samples, vector in models:
        mean += (num_samples / total) * vector.astype(np.float64)
    return mean.astype(np.float32)


def _delivered(reports: Iterable[Report]) -> Iterable[Report]:
    return (report for report in reports if report.is_delivered)


def _column(reported: Iterable[tuple[int, float | None]], num_clients: int) -> FloatArray:
    column = np.full(num_clients, np.nan)
    for client, value in reported:
        if value is not None and math.isfinite(value):
            column[client] = value
    return column
