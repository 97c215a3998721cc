"""Probes of a synchronous server, on the fleet of `test_synchronous`."""

import dataclasses
import math

import numpy as np
import pytest

from fleetsim.contracts import JobResult, Outcome, ProbeRequest, Purpose, StepMemory, Work, WorkKind
from fleetsim.engine.servers import selection
from fleetsim.errors import SimulationError
from tests.engine.tiny import COST, FirstCome, KnownTrainer

COMPUTE_S = 2 * (0.02 + 0.0105) + 300 / 4.958
TRAIN = Work(WorkKind.TRAIN, epochs=1)
EVALUATE, NOTHING = Work(WorkKind.EVALUATE), Work(WorkKind.NONE)


def test_probes_are_charged_and_a_probed_client_downloads_the_model_once(tiny):
    probes = [ProbeRequest(c, EVALUATE) for c in (0, 1, 2)]
    tiny.run(selector=FirstCome({1: probes}))
    probed = [row for row in tiny.recorder.tasks if row.purpose is Purpose.PROBE]
    trained = [row for row in tiny.recorder.tasks if row.purpose is Purpose.TRAIN]

    # Forward passes only: 2 * 0.02 + 100 / 4.958 s; the answer is 8 byte.
    assert [row.client for row in probed] == [0, 1, 2]
    assert probed[0].compute_s == pytest.approx(0.04 + 100 / 4.958)
    assert [row.upload_byte for row in probed] == [8, 8, 8]
    assert [row.download_byte for row in trained] == [0, 0]
    row = tiny.recorder.rounds[0]
    assert row.num_probed == 3
    assert row.probe_s == pytest.approx(1.0 + 0.04 + 100 / 4.958 + 64 / 8e6)
    assert row.energy_probe_j == pytest.approx(sum(r.energy_j for r in probed))
    assert row.energy_j == pytest.approx(sum(r.energy_j for r in tiny.recorder.tasks))
    assert [r.client for r in tiny.selector.views[0].reports] == [0, 1, 2]


def test_set_up_comes_before_the_first_probe_and_only_once(tiny):
    class Curious(FirstCome):
        def setup(self, fleet):
            return [ProbeRequest(client, NOTHING) for client in range(4)]

    tiny.run(selector=Curious({1: [ProbeRequest(0, NOTHING)]}), stop={"rounds": 2})
    first, second = tiny.selector.views

    # Round 1: four clients download the model in set-up, then client 0 is asked and holds it.
    assert [report.client for report in first.reports] == [0, 1, 2, 3, 0]
    assert [report.download_s for report in first.reports] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert second.reports == ()


def test_a_probe_downloads_the_global_model_or_its_own_and_messages_on_top(tiny):
    """Client 0 then holds a model that is not the global one, and client 1 none."""
    probes = [
        ProbeRequest(0, TRAIN, parameters=np.ones(3, dtype=np.float32)),
        ProbeRequest(2, NOTHING, download_byte=2_000_000),
        ProbeRequest(1, NOTHING, needs_model=False, download_byte=2_000_000),
    ]
    tiny.run(selector=FirstCome({1: probes}))
    rows = tiny.recorder.tasks

    assert [row.download_byte for row in rows] == [10**6, 3 * 10**6, 2 * 10**6, 10**6, 10**6]
    assert [row.download_s for row in rows[:3]] == pytest.approx([1.0, 3.0, 2.0])


def test_a_model_that_the_client_trained_itself_is_not_sent_to_it_again(tiny):
    """Round 2 asks for a gradient at the model of round 1: computation and upload only."""

    class LooksBack(FirstCome):
        def probe(self, view):
            if view.round == 1 or view.stage:
                return []
            [report] = self.outcomes[-1].reports
            gradient = Work(WorkKind.GRADIENT)
            return [ProbeRequest(0, gradient, needs_model=False, parameters=report.vector)]

    tiny.size, tiny.server, tiny.stop = 1, {"cohort": 1}, {"rounds": 2}
    tiny.selector, tiny.trainer = LooksBack(), KnownTrainer()
    tiny.run()
    first, probe, second = tiny.recorder.tasks

    # Client 0 adds 1 to each weight.
    given = tiny.trainer.given[1]
    assert (given.work.kind, given.base.tolist()) == (WorkKind.GRADIENT, [1.0, 1.0, 1.0])
    assert (probe.download_byte, probe.upload_byte) == (0, 1_000_008)
    assert (probe.download_s, probe.compute_s) == (0.0, pytest.approx(COMPUTE_S))
    assert probe.energy_compute_j == pytest.approx(3.3 * COMPUTE_S)
    assert probe.finished_at_s - probe.dispatched_at_s == pytest.approx(COMPUTE_S + 1.000008)
    assert (first.download_byte, second.download_byte) == (1_000_000, 1_000_000)


def test_a_client_that_is_asked_says_how_it_stands_when_it_answers(tiny):
    tiny.devices = {"pixel-6": 1.0}
    tiny.battery = {"initial_fraction": [0.5, 0.5]}
    tiny.trace("0,1,0,1,0.25 10,1,1,0,0.5", span_s=1000)
    asked = ProbeRequest(0, NOTHING, needs_model=False, asks_resources=True)
    tiny.run(selector=FirstCome({1: [asked]}))
    resources = tiny.selector.views[0].reports[0].resources

    assert (resources.load_fraction, resources.is_charging) == (0.25, False)
    assert (resources.flop_per_s, resources.ram_byte) == (42.9e9, 8 * 2**30)
    assert resources.battery_fraction == pytest.approx(0.5, abs=1e-6)
    assert resources.is_unmetered
    assert resources.free_ram_byte is None
    # Two batches of 50 on the idle phone, of which its owner takes a quarter.
    idle_s = 2 * 0.0105 + 300 / 42.9
    assert resources.samples_per_s == pytest.approx(0.75 * 100 / idle_s, rel=1e-12)
    assert (resources.down_bit_per_s, resources.up_bit_per_s) == (8e6, 8e6)

    # Where memory is looked at: a quarter of 8 GiB.
    tiny.cost = dataclasses.replace(COST, memory=StepMemory(0, 0, 0))
    tiny.run(memory={"kind": "share", "free_fraction": [0.25, 0.25]})
    free_byte = tiny.selector.views[-1].reports[0].resources.free_ram_byte
    assert free_byte == pytest.approx(2 * 2**30, rel=1e-12)


def test_who_keeps_its_model_to_itself_says_how_far_it_has_moved_and_uploads_nothing(tiny):
    # Client c adds c + 1 to each of the 3 weights: client 1 moves by 2 sqrt(3).
    evaluated = ProbeRequest(2, EVALUATE, uploads_vector=False)
    requests = [ProbeRequest(0, TRAIN), ProbeRequest(1, TRAIN, uploads_vector=False), evaluated]
    tiny.run(trainer=KnownTrainer(), selector=FirstCome({1: requests}))
    reports = {report.client: report for report in tiny.selector.views[0].reports}

    assert [row.upload_byte for row in tiny.recorder.tasks[:3]] == [1_000_008, 8, 8]
    assert (reports[1].download_s, reports[1].upload_s) == pytest.approx((1.0, 64 / 8e6))
    assert reports[1].compute_s == pytest.approx(COMPUTE_S)
    assert reports[1].vector is None
    assert reports[1].update_norm == pytest.approx(2.0 * math.sqrt(3.0), rel=1e-12)
    assert (reports[0].update_norm, reports[2].update_norm) == (None, None)
    assert all(report.update_norm is None for report in tiny.selector.outcomes[0].reports)


def test_a_probe_of_somebody_who_is_not_there_comes_back_as_offline_and_costs_nothing(tiny):
    class AsksTheOther(FirstCome):
        def probe(self, view):
            absent = 1 - int(view.candidates[0])
            return () if view.stage else [ProbeRequest(absent, NOTHING)]

    tiny.size, tiny.server, tiny.selector = 2, {"cohort": 1}, AsksTheOther()
    tiny.traces({"there": "0,1,0,1,0", "away": "0,0,0,1,0"}, span_s=1000)
    tiny.run()

    assert [report.outcome for report in tiny.selector.views[0].reports] == [Outcome.OFFLINE]
    assert tiny.recorder.rounds[0].num_probed == 0


def test_a_selector_that_never_stops_probing_is_stopped(tiny, monkeypatch):
    class Endless(FirstCome):
        def probe(self, view):
            return [ProbeRequest(0, NOTHING, needs_model=False, upload_byte=0)]

    monkeypatch.setattr(selection, "_MAX_STAGES", 20)
    with pytest.raises(SimulationError, match=r"Endless\.probe must .* not after 20 stages"):
        tiny.run(selector=Endless())


class Evaluates(KnownTrainer):
    """Client c measures an accuracy of c tenths for any model."""

    def results(self, tickets):
        clients = [self.jobs[ticket].client for ticket in tickets]
        return [
            JobResult(result.num_samples, vector=result.vector, accuracy=client / 10)
            for client, result in zip(clients, super().results(tickets), strict=True)
        ]


# The model takes a second down, evaluating twenty.
@pytest.mark.parametrize(("deadline_s", "asked"), [(60.0, (3, 0.3, 0.5)), (10.0, (3, None, None))])
def test_opinions_and_beliefs_go_on_record_with_the_answers(tiny, deadline_s, asked):
    """An opinion is an accuracy that was measured and asked for as one."""
    opinion = ProbeRequest(3, EVALUATE, is_opinion=True, belief=0.5)
    exchange = ProbeRequest(2, NOTHING, needs_model=False, is_opinion=True, belief=0.75)
    tiny.server, tiny.trainer = {"cohort": 2, "deadline_s": deadline_s}, Evaluates()
    tiny.run(selector=FirstCome({1: [opinion, ProbeRequest(1, EVALUATE), exchange]}))
    columns = [(row.client, row.opinion, row.belief) for row in tiny.recorder.tasks]

    assert columns[:3] == [asked, (1, None, None), (2, None, 0.75)]
    assert [column[1:] for column in columns[3:]] == [(None, None)] * 2
