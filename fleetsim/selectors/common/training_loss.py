"""Which of the losses that a client sees in local training a selector goes by.

A client sees the loss of every sample just before the step of its batch, epoch after epoch. What is
told of it is

* `last_epoch`: the mean over the last local epoch, which every delivered training brings;
* `first_epoch`: over the first, what its samples lose under the model that the client received, but
  for the steps that it takes meanwhile;
* `all_epochs`: the mean of all epochs' means.

With one local epoch the three are the same number. The last two must be asked for.
"""

from __future__ import annotations

import math
from typing import Literal

from fleetsim.contracts import Cohort, IntArray, Report

Epochs = Literal["last_epoch", "first_epoch", "all_epochs"]


def asking(clients: IntArray, epochs: Epochs) -> IntArray | Cohort:
    """The answer of a selector that goes by these losses of the clients it chooses [n]."""
    return clients if epochs == "last_epoch" else Cohort(clients, asks_epoch_losses=True)


def training_loss(report: Report, epochs: Epochs) -> float | None:
    """Mean loss of a client's training; None if none was told, or it is not finite.

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
        told = report.epoch_losses
        if told is None:
            return None
        loss = told[0] if epochs == "first_epoch" else math.fsum(told) / len(told)
    return loss if loss is not None and math.isfinite(loss) else None
