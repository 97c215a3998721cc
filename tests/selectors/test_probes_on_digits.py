"""Selectors on the bundled digits with real training: what they ask is charged and on record."""

from typing import Any

import pytest

from fleetsim.contracts import Cohort, ProbeRequest, Purpose, Report, RoundView
from fleetsim.scenario import load
from fleetsim.simulate import run
from tests.selectors.references.referee import Delegate

QUICK = (
    *("fleet.size=9", "server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null"),
    *("stop.rounds=4", "task.local.epochs=1", "task.model.hidden=[40, 40]"),
    *("fleet.devices={pixel-6: 1.0}", "fleet.usage={}", "evaluate.validation_fraction=0.1"),
)
"""Of one kind of phone, which owners leave alone."""


def model_byte(hidden):
    """Bytes of the network of two hidden layers, whose state dict has no more than its weights."""
    return 4 * (64 * hidden + hidden + hidden * hidden + hidden + hidden * 10 + 10)


class Watched(Delegate):
    """A selector, what it asked and chose, and the reports that it got."""

    def __init__(self, selector: Any) -> None:
        super().__init__(selector)
        self.requests: list[tuple[int, ProbeRequest]] = []
        """Each with its round."""
        self.views: list[RoundView] = []
        self.chosen: list[list[int]] = []
        self.reports: list[Report] = []
        """Of trainings."""

    def probe(self, view):
        requests = self.selector.probe(view)
        self.requests += [(view.round, request) for request in requests]
        return requests

    def select(self, view):
        self.views.append(view)
        answer = self.selector.select(view)
        self.chosen.append((answer.clients if isinstance(answer, Cohort) else answer).tolist())
        return answer

    def observe(self, outcome):
        self.reports += outcome.reports
        self.selector.observe(outcome)


@pytest.fixture
def play(tmp_path):
    def go(selector, *changes):
        scenario = load("quickstart", [*QUICK, *changes, f"server.selector={selector}"])
        watched = Watched(scenario.server.selector.build())
        return watched, run(scenario, out=tmp_path / "run", workers=1, selector=watched)

    return go


def tasks_of(finished):
    """Tasks of probes, and of trainings."""
    purpose = finished.tasks["purpose"]
    return [finished.tasks[purpose == each.value] for each in (Purpose.PROBE, Purpose.TRAIN)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selector", "upload_byte", "num_probed"),
    [
        ("{kind: fedgra, every_rounds: 2}", model_byte(200) + 24, [True, False, True]),
        ("{kind: fedgra, every_rounds: 2, divergence_at: client}", 32, [True, False, True]),
        ("{kind: gpfl}", model_byte(200) + 8, [True, False, False]),
        ("{kind: survey, policy: 2}", None, [False, False, False]),
        ("{kind: tifl}", model_byte(200), [True, False, False]),
        ("{kind: fedcs, asked_fraction: 0.5}", 24, [True, True, True]),
        ("{kind: rbcs-f}", 16, [True, True, True]),
        ("{kind: autofl}", 8, [True, True, True]),
        ("{kind: oort, profile: oort_repo}", None, [False, False, False]),
    ],
)
def test_what_is_asked_is_charged_and_the_model_learns(selector, upload_byte, num_probed, play):
    # All clients are always available, so no further ones appear.
    usual = ["server.over_commit=1.25", "task.local.epochs=5", "task.model.hidden=[200, 200]"]
    more = ["task.partition={kind: iid}", "fleet.size=20", "server.cohort=4", "stop.rounds=3"]
    watched, finished = play(selector, *usual, *more)
    asked, _ = tasks_of(finished)

    assert [bool(num) for num in finished.rounds["num_probed"]] == num_probed
    assert set(asked["upload_byte"]) == (set() if upload_byte is None else {upload_byte})
    assert asked.empty == (finished.rounds["energy_probe_j"].sum() == 0.0)
    assert all(0 < len(chosen) <= 5 for chosen in watched.chosen)
    assert finished.rounds["accuracy"].iloc[-1] > 0.3


def test_first_models_of_favor_are_charged_once(play):
    _, finished = play("{kind: favor, components: 6, hidden: 16, batch_size: 4}")
    asked, trained = tasks_of(finished)

    assert sorted(asked["client"]) == list(range(9))
    assert set(asked["round"]) == {1}
    assert set(asked["download_byte"]) == set(asked["upload_byte"]) == {model_byte(40)}
    assert (finished.rounds["energy_probe_j"] > 0.0).tolist() == [True, False, False, False]
    # Those that train in the first round hold the model already.
    assert set(trained[trained["round"] == 1]["download_byte"]) == {0}
    assert len(trained) == 12


def test_probes_of_fedmarl_are_an_epoch_that_counts_for_those_who_continue(play):
    selector = "{kind: fedmarl, batch_size: 2, exploration: 0.5}"
    more = ["task.partition={kind: iid}", "task.local.epochs=3", "fleet.size=12"]
    _, finished = play(selector, *more)
    asked, trained = tasks_of(finished)
    seconds, rest = (part.set_index(["round", "client"])["compute_s"] for part in (asked, trained))

    assert finished.rounds["num_probed"].tolist() == [6] * 4
    assert set(asked["upload_byte"]) == {8}
    assert set(trained["upload_byte"]) == {model_byte(40)}
    assert set(trained["download_byte"]) == {0}, "they hold the model that they trained"
    assert 4 <= len(trained) <= 12
    # Of three epochs two are left: twice the seconds of the probe, but for its fixed part.
    assert (rest / seconds.loc[rest.index]).between(1.5, 2.1).all()
    assert finished.rounds["energy_probe_j"].gt(0.0).all()


@pytest.mark.slow
def test_afl_knows_what_the_first_of_several_epochs_lost(play):
    watched, _ = play("{kind: afl}", "task.local.epochs=3", "task.holdout_fraction=0.25")
    valuation = watched.state()["valuation"]

    assert len(watched.reports) == 3 * 4
    for report in watched.reports:
        assert report.epoch_losses is not None
        assert len(report.epoch_losses) == 3
        assert report.epoch_losses[-1] == report.loss
    for report in watched.reports[-3:]:
        assert report.epoch_losses is not None
        expected = report.num_samples**0.5 * report.epoch_losses[0]
        assert valuation[report.client] == pytest.approx(expected)


def test_pyramidfl_uploads_parts_of_updates(play):
    _, finished = play("{kind: pyramidfl, exploration_fraction: 0, exploration_min_fraction: 0}")
    tasks = finished.tasks
    # A client without the model downloads it to train.
    shares = tasks.upload_byte / tasks.download_byte.max()

    assert (tasks.purpose == "train").all()
    # 1 - .1 - rank * .5 / 3
    for _, of_round in shares.groupby(tasks["round"]):
        assert sorted(of_round) == pytest.approx([0.9 - 1 / 3, 0.9 - 0.5 / 3, 0.9], rel=1e-3)


def test_messages_take_seconds_and_joules_of_those_who_send_them(play):
    """Printed potentials settle in one exchange. Nine clients who are all neighbours: 8 byte for
    each of 8 neighbours, (2 scalars and 9 indices) x 8 x 8 = 704 byte each way, which take .704 s
    at 8 kbit/s, after three round trips of 71 ms over LTE."""
    channel = "fleet.channel={kind: constant, down_bit_per_s: 8.0e3, up_bit_per_s: 8.0e3}"
    selector = "{kind: bp-ucb, slot_rounds: 1, potentials: printed, graph: {kind: complete}}"
    holdout = "task.holdout_fraction=0.25"
    _, finished = play(selector, "stop.rounds=2", holdout, channel)
    talked = finished.tasks.query("purpose == 'probe' and num_samples == 0")

    assert len(talked) == 9
    assert talked["upload_byte"].tolist() == talked["download_byte"].tolist() == [704] * 9
    assert talked["upload_s"].tolist() == pytest.approx([0.704 + 3 * 0.071] * 9)
    assert talked["download_s"].tolist() == pytest.approx([0.704 + 3 * 0.071] * 9)
    assert (talked["energy_transmit_j"] > 0.0).all()
    assert (talked["energy_receive_j"] > 0.0).all()


@pytest.mark.parametrize(("kind", "has_beliefs"), [("quick-init-ucb", False), ("bp-ucb", True)])
def test_opinions_and_beliefs_on_record_are_those_of_the_selector(kind, has_beliefs, play):
    selector = f"{{kind: {kind}, slot_rounds: 2}}"
    more = ["fleet.channel={kind: fading}", "task.partition={kind: iid}", "fleet.size=6"]
    watched, finished = play(selector, *more, "server.cohort=2", "stop.rounds=5")
    opinions = finished.opinions()
    rows = list(zip(opinions["round"], opinions["client"], strict=True))

    # Everybody is asked after rounds 2 and 4.
    assert rows == [(round_, client) for round_ in (2, 4) for client in range(6)]
    assert dict(zip(rows, opinions["opinion"], strict=True)) == {
        (view.round - 1, report.client): report.accuracy
        for view in watched.views
        for report in view.reports
        if report.accuracy is not None
    }
    beliefs = {
        (round_ - 1, request.client): request.belief
        for round_, request in watched.requests
        if request.belief is not None
    }
    if has_beliefs:
        assert dict(zip(rows, opinions["belief"], strict=True)) == beliefs
    else:
        assert opinions["belief"].isna().all()
        assert beliefs == {}
