"""Requests of a selector to each client: epochs, clock, share of the update, and weight.

Worked out by hand on the tiny fleet: a download of 1 MB takes a second, and so does the upload of
a whole update; local epochs on the Nano take as long as `epochs_s` says.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fleetsim.contracts import (
    Cohort,
    IntArray,
    ProbeRequest,
    Purpose,
    RoundOutcome,
    State,
    Work,
    WorkKind,
)
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.learning.aggregation.asynchronous import FedAsyncSettings
from tests.engine.tiny import NANO_FILE, FirstCome, KnownTrainer, epochs_s, goes_on


class Particular(FirstCome):
    """Selects the lowest numbers, each with its own work."""

    def __init__(self, **asked: ArrayLike | None) -> None:
        super().__init__()
        self.asked: dict[str, Any] = {
            name: values if values is None or isinstance(values, bool) else np.array(values)
            for name, values in asked.items()
        }

    def select(self, view):
        clients: IntArray = super().select(view)
        return Cohort(clients, **self.asked)


def test_epochs_of_its_own_take_a_client_so_many_times_as_long(tiny):
    one, three = tiny.rows(trainer=KnownTrainer(), selector=Particular(epochs=[1, 3]))

    assert [job.work.epochs for job in tiny.trainer.given] == [1, 3]
    assert one.compute_s == pytest.approx(epochs_s(1), rel=1e-12)
    assert three.compute_s == pytest.approx(3 * epochs_s(1), rel=1e-12)
    assert three.train_flop == pytest.approx(3 * one.train_flop, rel=1e-12)


def test_a_share_of_the_update_takes_a_share_of_the_bytes_rounded_up(tiny):
    # Of 1,000,000 byte a third is 333,333.3.
    whole, third = tiny.rows(selector=Particular(upload_fraction=[1.0, 1 / 3]))

    assert (whole.upload_byte, third.upload_byte) == (1_000_000, 333_334)
    assert third.upload_s == pytest.approx(0.333334, rel=1e-9)


def test_what_epochs_lost_is_told_where_it_was_asked(tiny):
    tiny.run(trainer=KnownTrainer(), selector=Particular(asks_epoch_losses=True))
    asked = [report.epoch_losses for report in tiny.selector.outcomes[0].reports]
    tiny.run(trainer=KnownTrainer(), selector=Particular())

    assert asked == [(1.5, 0.5)] * 2
    assert [report.epoch_losses for report in tiny.selector.outcomes[0].reports] == [None] * 2


@pytest.mark.parametrize(
    ("asked", "deadline_s", "model"),
    [
        # Client 1 adds 2 to each of three weights and sends one of them: the mean with client 0,
        # that adds 1 to all, is 0.5 twice and (1 + 2) / 2 once.
        ({"upload_fraction": [1.0, 1 / 3], "weights": [1.0, 1.0]}, None, [0.5, 0.5, 1.5]),
        # (3 * 1 + 1 * 2) / 4, though 1 has ten times the samples.
        ({"weights": [3.0, 1.0]}, None, [1.25] * 3),
        # Client 1 is late, and leaves the mean to client 0, but its share empty.
        ({"weights": [0.25, 0.5]}, 2.5 + epochs_s(), [1.0] * 3),
        ({"weights": [0.25, 0.5], "are_shares": True}, 2.5 + epochs_s(), [0.25] * 3),
    ],
)
def test_updates_count_by_what_is_sent_and_by_the_weights_that_are_asked_for(
    tiny, asked, deadline_s, model
):
    tiny.samples, tiny.server = [100, 1000, 100, 100], {"cohort": 2, "deadline_s": deadline_s}
    tiny.run(trainer=KnownTrainer(), selector=Particular(**asked))
    outcome = tiny.selector.outcomes[0]

    assert sorted(outcome.parameters.tolist()) == model
    assert [report.weight for report in outcome.reports] == asked["weights"]


def test_aggregators_without_a_mean_refuse_weights(tiny):
    tiny.server = {"concurrency": 2, "buffer_size": 1}
    tiny.aggregator = FedAsyncSettings().build()
    with pytest.raises(
        ScenarioError, match=r"'fedasync' .* \(client 0: 1\); use fedbuff or fedavg"
    ):
        tiny.run(selector=Particular(weights=[1.0, 1.0]))


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"weights": [1.0]}, "2 finite numbers above 0 as weights, got [1.0]"),
        ({"weights": [1.0, 0.0]}, "as weights, got [1.0, 0.0]"),
        ({"weights": [1.0, math.inf]}, "as weights, got [1.0, inf]"),
        ({"steps": [1, 0]}, "2 whole numbers of at least 1 as steps, got [1, 0]"),
        ({"steps": [2, 1], "epochs": [1, 1]}, "steps or epochs, got both"),
        ({"are_shares": True}, "weights where they are shares, got None"),
        ({"continues": [True, False]}, "in a probe of this round, which client 0 has not"),
        ({"continues": [True]}, "2 truth values as continues, got [True]"),
        ({"epochs": [1, 0]}, "as epochs, got [1, 0]"),
        ({"epochs": [1.0, 2.0]}, "as epochs, got [1.0, 2.0]"),
        ({"clock_fraction": [0.0, 1.0]}, "2 numbers in (0, 1] as clock_fraction"),
        ({"upload_fraction": [1.0, 1.5]}, "as upload_fraction, got [1.0, 1.5]"),
        ({"weights": ["a", "b"]}, "2 finite numbers above 0 as weights, got ['a', 'b']"),
        ({"asks_epoch_losses": [1, 0]}, "True or False as asks_epoch_losses, got [1, 0]"),
    ],
)
def test_what_cannot_be_asked_ends_the_run_with_the_selectors_name(tiny, asked, complaint):
    tiny.selector, tiny.user = Particular(**asked), UserPart("--plugin mine:Mine", "/home/mine.py")

    with pytest.raises(PluginError) as raised:
        tiny.run()

    line = str(raised.value)
    assert line.startswith("--plugin mine:Mine: at virtual time 0.0 s, select must return ")
    assert complaint in line


def seen(outcome: RoundOutcome) -> tuple[Any, ...]:
    """Return what the selector received, without the arrays."""
    reports = [report._replace(vector=None, base=None) for report in outcome.reports]
    return outcome.parameters.tolist(), reports


class Cycling(FirstCome):
    """Asks for something else in every selection, of each client by its place and the round."""

    def __init__(self, are_shares: bool) -> None:
        super().__init__()
        self.are_shares = are_shares

    def select(self, view):
        clients: IntArray = super().select(view)
        number = view.round + np.arange(clients.size)
        asked: dict[str, Any] = {"epochs": 1 + number % 3}
        if view.round % 3 == 0:
            asked = {"steps": 1 + number % 4}
        return Cohort(
            clients,
            **asked,
            clock_fraction=1.0 - 0.2 * (number % 2),
            upload_fraction=1.0 - 0.25 * (number % 3),
            asks_epoch_losses=bool(view.round % 2),
            weights=(1.0 + number % 4) / 16,
            are_shares=self.are_shares,
        )


@pytest.mark.parametrize("are_shares", [False, True])
def test_flights_with_particular_work_are_repeated(tiny, are_shares):
    """Devices of different speed, so that tasks are in flight whenever a round is closed."""
    tiny.devices = {NANO_FILE: 0.5, "jetson-tx2": 0.5}
    tiny.size, tiny.samples = 8, [50, 100, 150, 200, 250, 300, 350, 400]
    tiny.server = {"concurrency": 4, "buffer_size": 2}
    tiny.stop = {"rounds": 9}
    selectors: list[FirstCome] = []

    def new(state: State | None):
        selectors.append(Cycling(are_shares))
        tiny.selector, tiny.trainer = selectors[-1], KnownTrainer()
        return tiny.build_buffered(state)

    whole = goes_on(tiny, new, after=range(1, 10))
    straight, *resumed = ([seen(outcome) for outcome in each.outcomes] for each in selectors)

    assert any(len(state["running/dispatched_at_s"]) > 1 for state in whole.states)
    for done, outcomes in enumerate(resumed, start=1):
        assert outcomes == straight[done:]


class Restarting(FirstCome):
    """Replaces the global model by a given one before these rounds."""

    def __init__(self, rounds: set[int], start: ArrayLike) -> None:
        super().__init__()
        self.rounds, self.start = rounds, np.array(start, dtype=np.float32)

    def select(self, view):
        clients: IntArray = super().select(view)
        return Cohort(clients, start=self.start if view.round in self.rounds else None)


@pytest.mark.parametrize(
    ("server", "models"),
    [
        # Clients 0 and 1 add 1 and 2, on average 1.5.
        ({"cohort": 2}, [1.5, 10 + 1.5, 13.0]),
        ({"concurrency": 1, "buffer_size": 1}, [1.0, 10 + 1.0, 12.0]),
    ],
    ids=str,
)
def test_a_cohort_may_start_from_another_model_which_replaces_the_global_one(tiny, server, models):
    tiny.server, tiny.trainer = server, KnownTrainer()
    tiny.run(stop={"rounds": 3}, selector=Restarting({2}, [10.0] * 3))

    assert [float(one.parameters[0]) for one in tiny.selector.outcomes] == pytest.approx(models)
    assert [row.loss for row in tiny.recorder.rounds] == pytest.approx(models)


@pytest.mark.parametrize(("rounds", "byte_of_0"), [(set(), 0), ({1}, 1_000_000)])
def test_who_holds_the_global_model_must_download_the_one_to_start_from(rounds, byte_of_0, tiny):
    """Client 0 evaluated the global model in a probe, and holds it."""
    tiny.trainer = KnownTrainer()
    tiny.selector = Restarting(rounds, [0.0, 0.0, 0.0])
    tiny.selector.probes = {1: [ProbeRequest(0, Work(WorkKind.EVALUATE))]}
    tiny.run()
    trained = [row for row in tiny.recorder.tasks if row.purpose is Purpose.TRAIN]

    assert [row.download_byte for row in trained] == [byte_of_0, 1_000_000]
