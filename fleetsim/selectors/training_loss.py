"""Losses of local training that clients report.

A client computes the loss of each sample just before the SGD step of its batch, in every epoch. It
reports one of

* `last_epoch`: the mean over the last local epoch, which every delivered training brings;
* `first_epoch`: the mean over the first epoch: nearly the loss under the model that the client
  received, except for the steps taken within that epoch;
* `all_epochs`: the mean of the means of all epochs.

With one local epoch the three are the same number. The last two must be requested.
"""

from __future__ import annotations

import math
from typing import Literal

from fleetsim.contracts import Cohort, IntArray, Report

Epochs = Literal["last_epoch", "first_epoch", "all_epochs"]


def answer_requesting(clients: IntArray, epochs: Epochs) -> IntArray | Cohort:
    """Return the answer of a selector that uses these losses of its clients [n]."""
    return clients if epochs == "last_epoch" else Cohort(clients, asks_epoch_losses=True)


def training_loss(report: Report, epochs: Epochs) -> float | None:
    """Return the mean loss of a client's training; None if not reported or not finite.

    >>> from fleetsim.contracts import Outcome, Purpose
    >>> report = Report(0, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 9.0, 10, loss=1.0)
    >>> told = report._replace(epoch_losses=(4.0, 2.5, 1.0))
    >>> [training_loss(told, epochs) for epochs in ("last_epoch", "first_epoch", "all_epochs")]
    [1.0, 4.0, 2.5]
    """
    if not report.is_delivered:
        return None
    loss = report.loss
    if epochs != "last_epoch":
        reported = report.epoch_losses
        if reported is None:
            return None
        loss = reported[0] if epochs == "first_epoch" else math.fsum(reported) / len(reported)
    return loss if loss is not None and math.isfinite(loss) else None
