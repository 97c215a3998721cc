"""Requests to clients, and their reports as columns over the fleet.

Losses and accuracies are columns [N], NaN where there is none: nothing was delivered, the run does
not train, or the number is not finite.

In local training a client computes the loss of each sample just before the SGD step of its batch,
in every epoch. It reports one of

* `last_epoch`: the mean over the last local epoch, which every delivered training brings;
* `first_epoch`: the mean over the first epoch: nearly the loss under the model that the client
  received, except for the steps taken within that epoch;
* `all_epochs`: the mean of the means of all epochs.

With one local epoch the three are the same number. The last two must be requested.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from fleetsim.contracts import (
    Cohort,
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

ONE_EPOCH = Work(WorkKind.TRAIN, epochs=1)
Epochs = Literal["last_epoch", "first_epoch", "all_epochs"]


def unasked(view: RoundView) -> IntArray:
    """Return the candidates without a report since the last choice, not even of a failure."""
    if not view.reports:
        return view.candidates
    heard_of = [report.client for report in view.reports]
    return view.candidates[~np.isin(view.candidates, heard_of)]


def requests(clients: IntArray, work: Work, **options: Any) -> Sequence[ProbeRequest]:
    """Return a request of the same work to each client; options are those of `ProbeRequest`."""
    return [ProbeRequest(client, work, **options) for client in clients.tolist()]


def batch_work(kind: WorkKind, batch: int | None, num_samples: int) -> Work:
    """Return work on at most a batch of a client's samples; None: on all."""
    return Work(kind, num_samples=None if batch is None else min(batch, num_samples))


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


def resources(reports: Iterable[Report]) -> tuple[IntArray, Mapping[str, FloatArray]]:
    """Return the clients that reported resources [n], and these by name [n]; NaN where None."""
    reported = {
        report.client: report.resources
        for report in _delivered(reports)
        if report.resources is not None
    }
    told = {
        field.name: np.array([getattr(one, field.name) for one in reported.values()], np.float64)
        for field in fields(Resources)
    }
    return np.array(list(reported), dtype=np.int64), told


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


def answer_requesting(clients: IntArray, epochs: Epochs) -> IntArray | Cohort:
    """Return the answer of a selector that uses these losses of its clients [n]."""
    return clients if epochs == "last_epoch" else Cohort(clients, asks_epoch_losses=True)


def training_losses(reports: Iterable[Report], epochs: Epochs) -> tuple[IntArray, FloatArray]:
    """Return the clients that reported a finite loss of their training, and its mean [n], [n].

    >>> from fleetsim.contracts import Outcome, Purpose
    >>> report = Report(5, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 9.0, 10, loss=1.0)
    >>> answer = report._replace(epoch_losses=(4.0, 2.5, 1.0))
    >>> kinds = ("last_epoch", "first_epoch", "all_epochs")
    >>> [training_losses([answer], epochs)[1].tolist() for epochs in kinds]
    [[1.0], [4.0], [2.5]]
    """
    clients, losses = [], []
    for report in reports:
        loss, reported = report.loss, report.epoch_losses
        if epochs != "last_epoch":
            loss = None
            if reported is not None:
                is_first = epochs == "first_epoch"
                loss = reported[0] if is_first else math.fsum(reported) / len(reported)
        if report.is_delivered and loss is not None and math.isfinite(loss):
            clients.append(report.client)
            losses.append(loss)
    return np.array(clients, dtype=np.int64), np.array(losses, dtype=np.float64)


def _delivered(reports: Iterable[Report]) -> Iterable[Report]:
    return (report for report in reports if report.is_delivered)


def _column(reported: Iterable[tuple[int, float | None]], num_clients: int) -> FloatArray:
    column = np.full(num_clients, np.nan)
    for client, value in reported:
        if value is not None and math.isfinite(value):
            column[client] = value
    return column
