"""Losses of training, of which only those that are known count."""

import math

import pytest

from fleetsim.contracts import Outcome
from fleetsim.selectors.training_loss import training_losses
from tests.selectors.rounds import report_of


@pytest.mark.parametrize("epochs", ["last_epoch", "first_epoch", "all_epochs"])
def test_who_failed_or_diverged_or_was_not_asked_has_no_loss(epochs):
    reports = [
        report_of(0, loss=2.0)._replace(epoch_losses=(2.0, 2.0)),
        report_of(1, outcome=Outcome.LATE)._replace(epoch_losses=(9.0, 9.0), loss=9.0),
        report_of(2, loss=math.inf)._replace(epoch_losses=(math.inf, math.inf)),
        report_of(3),
    ]
    clients, losses = training_losses(reports, epochs)

    assert (clients.tolist(), losses.tolist()) == ([0], [2.0])
