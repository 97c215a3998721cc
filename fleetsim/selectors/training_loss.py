"""Losses of local training that clients report.

A client computes the loss of each sample just before the SGD step of its batch, in every epoch. It
reports one of

* `last_epoch`: the mean over the last local epoch, which every delivered training brings;
* `first_epoch`: the mean over the first epoch: nearly the loss under the model that the client
  received, except for the steps taken within that epoch;
* `all_epochs`: the mean of the means of all epochs.

With one local epoch the three are the same number. The last two must be requested.
"""

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np

from fleetsim.contracts import Cohort, FloatArray, IntArray, Report

Epochs = Literal["last_epoch", "first_epoch", "all_epochs"]


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
