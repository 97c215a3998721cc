"""Synchronous server on a fleet that can be calculated by hand.

Jetson Nano (CPU): 4.958 GFLOP/s conv, 0.02 s per batch, 0.0105 s per batch and million parameters,
2.1 W idle, 3.3 W training, 2.0 W on Wi-Fi. One task: 100 samples of 1 GFLOP forward, batches of
50, a model of 1 million parameters and 8 Mbit over 8 Mbit/s: download 1 s, upload 1 s, and

    compute = 2 * (0.02 + 0.0105) + 100 * 3 / 4.958 = 60.569 s.

The Wi-Fi tail after each transfer costs 0.04 J.
"""

import weakref
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest

from fleetsim.contracts import Outcome
from fleetsim.errors import SimulationError
from fleetsim.learning.aggregation.uploads import refusal_reasons
from tests.engine.tiny import FirstCome, KnownTrainer, RateTrainer, Tiny, task_energies

COMPUTE_S = 2 * (0.02 + 0.0105) + 300 / 4.958
TASK_S = COMPUTE_S + 2.0
TAIL_J = 0.13286 * 0.30107


def test_a_task_takes_and_costs_what_the_profile_says_and_a_round_adds_its_tasks_up(tiny):
    row = tiny.rows()[0]

    assert row.outcome is Outcome.DELIVERED
    assert (row.download_s, row.upload_s) == (1.0, 1.0)
    assert row.compute_s == pytest.approx(COMPUTE_S)
    assert row.finished_at_s == pytest.approx(TASK_S)
    joules = (3.3 * COMPUTE_S, 2.0, 2.0, 2 * TAIL_J, 2.1 * TASK_S)
    assert task_energies(row) == pytest.approx(joules)
    assert (row.download_byte, row.upload_byte) == (1_000_000, 1_000_000)
    assert (row.train_flop, row.num_samples) == (pytest.approx(100 * 3e9), 100)

    round_ = tiny.recorder.rounds[0]
    assert (round_.num_eligible, round_.num_selected, round_.num_delivered) == (4, 2, 2)
    assert round_.energy_j == round_.energy_total_j == pytest.approx(2 * sum(joules))
    assert (round_.energy_wasted_j, round_.energy_probe_j, round_.waiting_s) == (0.0, 0.0, 0.0)
    assert round_.aggregated


def test_a_task_is_trained_at_the_learning_rate_of_its_round(tiny):
    """Every client adds 1, 1/2 and 1/3 in rounds 1, 2 and 3; the loss is the first weight."""
    tiny.learning_rate_at, tiny.trainer = (lambda round_: 1.0 / round_), RateTrainer()
    tiny.stop = {"rounds": 3}
    tiny.run()

    losses = [row.loss for row in tiny.recorder.rounds]
    assert losses == pytest.approx([1.0, 1.5, 1.5 + 1 / 3])
    assert [view.learning_rate for view in tiny.selector.views] == [1.0, 0.5, 1 / 3]


def test_a_client_that_is_still_at_work_at_the_deadline_is_late_and_costs_until_then(tiny):
    row = tiny.rows(server={"cohort": 2, "deadline_s": 31.0})[0]

    assert row.outcome is Outcome.LATE
    assert (row.finished_at_s, row.compute_s) == (31.0, pytest.approx(30.0))
    assert row.energy_compute_j == pytest.approx(3.3 * 30.0)
    assert row.energy_idle_j == pytest.approx(2.1 * 31.0)
    assert row.train_flop == pytest.approx(100 * 3e9 * 30.0 / COMPUTE_S)
    assert (row.upload_byte, row.train_loss) == (0, None)
    round_row = tiny.recorder.rounds[0]
    assert (round_row.num_late, round_row.aggregated) == (2, False)
    assert round_row.energy_wasted_j == pytest.approx(round_row.energy_j)


def test_over_commitment_takes_the_fastest_and_cancels_the_rest(tiny):
    tiny.run(samples=[300, 100, 200, 400], server={"cohort": 2, "over_commit": 2.0})

    delivered = [row.client for row in tiny.recorder.tasks if row.outcome is Outcome.DELIVERED]
    assert delivered == [1, 2]
    finished_s = tiny.recorder.rounds[0].finished_at_s
    assert {row.finished_at_s for row in tiny.recorder.tasks if row.client != 1} == {finished_s}
    assert tiny.recorder.rounds[0].num_cancelled == 2


@pytest.mark.parametrize(
    ("then", "rule", "outcome"),
    [
        ("0,0,1,0", {}, Outcome.OFFLINE),  # taken away
        ("1,0,1,0", {}, Outcome.DELIVERED),  # unplugged
        ("1,0,1,0", {"charging": True}, Outcome.OFFLINE),
    ],
)
def test_a_task_ends_when_its_client_stops_being_eligible(tiny, then, rule, outcome):
    tiny.trace(f"0,1,1,1,0 21,{then}", span_s=1000)
    row = tiny.rows(server={"cohort": 2, "eligibility": rule})[0]

    assert row.outcome is outcome
    if outcome is Outcome.OFFLINE:
        assert (row.finished_at_s, row.energy_compute_j) == (21.0, pytest.approx(3.3 * 20.0))
        assert tiny.recorder.rounds[0].num_lost == 2


def test_a_battery_that_meets_its_cut_off_ends_the_task(tiny):
    # Pixel 6: 4614 mAh * 3.85 V = 63,950 J. It starts at 30.1 % and drops out at 30 %: 63.95 J.
    # Download: 0.363 W + 0.149 W for 1 s and a tail of 0.04 J; then 4.43 W + 0.149 W.
    tiny.devices = {"pixel-6": 1.0}
    tiny.trace("0,1,0,1,0", span_s=1000)
    tiny.samples = [3000] * 4
    tiny.battery = {"initial_fraction": [0.301, 0.301], "cutoff_fraction": 0.3}
    tiny.server = {"cohort": 2, "eligibility": {"min_battery_fraction": 0.3005}}
    tiny.run()
    row = tiny.recorder.tasks[0]

    capacity_j = 4614e-3 * 3600 * 3.85
    left_j = 0.001 * capacity_j - (0.363 + 0.149) - TAIL_J
    assert row.outcome is Outcome.BATTERY
    assert row.compute_s == pytest.approx(left_j / (4.43 + 0.149), rel=1e-6)
    assert next(tiny.server_ran.clients()).battery_fraction[:2] == pytest.approx([0.3, 0.3])


def test_a_transfer_that_the_channel_gives_up_on_is_a_lost_link(tiny):
    row = tiny.rows(channel={**tiny.channel, "down_bit_per_s": 1e5, "give_up_s": 30})[0]

    assert (row.outcome, row.finished_at_s) == (Outcome.LINK, 30.0)
    assert row.download_byte == 375_000  # 1e5 bit/s for 30 s
    assert row.energy_receive_j == pytest.approx(60.0)


def test_a_lost_upload_costs_all_that_a_delivered_one_costs(tiny, tmp_path):
    lost = Tiny(tmp_path, channel={**tiny.channel, "upload_success": [{"probability": 0.0}]})

    for there, here in zip(tiny.rows(), lost.rows(), strict=True):
        assert there.outcome is Outcome.DELIVERED
        assert here == there._replace(outcome=Outcome.LINK, completed_fraction=None)
    assert lost.recorder.rounds[0].num_delivered == 0
    assert lost.recorder.rounds[0].energy_wasted_j == tiny.recorder.rounds[0].energy_j
    # The server does not learn why a client is lost, nor what it spent.
    assert isinstance(lost.selector, FirstCome)
    reports = lost.selector.outcomes[0].reports
    assert {(one.outcome, one.energy_j) for one in reports} == {(Outcome.OFFLINE, None)}


def test_an_update_that_the_screen_refuses_is_wasted_and_says_why(tiny):
    tiny.server = {"cohort": 3, "minimum_reports": 3}
    tiny.trainer = KnownTrainer()  # client c adds c + 1 to each of three weights
    tiny.screen = partial(refusal_reasons, max_update_norm=4.0)
    tiny.run()

    # Norms sqrt(3) * (1, 2, 3) = 1.73, 3.46, 5.20.
    outcomes = [row.outcome for row in tiny.recorder.tasks]
    assert outcomes == [Outcome.DELIVERED, Outcome.DELIVERED, Outcome.REFUSED]
    refused = tiny.recorder.tasks[2]
    assert refused.refused == "its update has norm 5.19615, more than 4"
    row = tiny.recorder.rounds[0]
    assert (row.num_delivered, row.num_refused, row.num_lost, row.aggregated) == (2, 1, 0, False)
    assert row.energy_wasted_j == pytest.approx(refused.energy_j)
    assert tiny.selector.outcomes[0].reports[2].refused == refused.refused


def test_a_day_without_anybody_is_waited_for_in_a_handful_of_events(tiny):
    tiny.trace("0,0,0,1,0 100000,1,0,1,0", span_s=200_000)
    tiny.stop = {"time_s": 86_400.0}
    server = tiny.build()
    server._clock.step = Mock(wraps=server._clock.step)
    reason = server.run()

    assert reason.rule == "time_s"
    assert "while waiting for 1 eligible client" in reason.text
    assert server.now_s == 86_400.0
    assert (tiny.recorder.tasks, tiny.recorder.rounds) == ([], [])
    assert 0 < server._clock.step.call_count < 10


def test_a_fleet_that_nobody_will_ever_join_ends_at_once_and_says_why(tiny):
    tiny.trace("0,1,0,1,0", span_s=1000)
    reason = tiny.run(server={"cohort": 2, "eligibility": {"charging": True}})

    assert (reason.rule, tiny.server_ran.now_s) == ("no_clients", 0.0)
    assert "server.eligibility" in reason.text


def test_a_round_waits_for_its_minimum_of_clients(tiny):
    # The second client's user comes online at 500 s.
    tiny.traces({"a": "0,1,0,1,0", "b": "0,0,0,1,0 500,1,0,1,0"}, span_s=1000)
    tiny.run(size=2, server={"cohort": 2, "minimum_reports": 2})

    assert tiny.recorder.tasks[0].dispatched_at_s == 500.0
    assert tiny.recorder.rounds[0].idle_s == 500.0


def test_the_end_of_time_cuts_a_running_round_off_and_none_begins_when_resumed(tiny):
    assert tiny.run(stop={"time_s": 40.0}).rule == "time_s"
    assert [row.outcome for row in tiny.recorder.tasks] == [Outcome.CANCELLED] * 2
    assert tiny.server_ran.now_s == 40.0
    assert tiny.build(tiny.recorder.states[-1]).run().rule == "time_s"
    assert len(tiny.recorder.rounds) == 1


def test_the_energy_limit_ends_the_run_after_the_round_that_meets_it(tiny):
    # A round of two tasks costs 2 * (3.3 * 60.57 + 2.1 * 62.57 + 4.08) = 671 J.
    assert tiny.run(stop={"energy_j": 700.0}).rule == "energy_j"
    assert len(tiny.recorder.rounds) == 2


def test_a_selector_that_wants_nobody_is_asked_again_when_the_fleet_changes(tiny):
    class Picky(FirstCome):
        def select(self, view):
            return view.candidates[: view.wanted * (view.now_s >= 200)]

    tiny.trace("0,1,0,1,0 100,1,0,0,0 200,1,0,1,0 600,0,0,1,0", span_s=1000)
    tiny.run(server={"cohort": 2, "eligibility": {"unmetered": True}}, selector=Picky())

    assert tiny.recorder.tasks[0].dispatched_at_s == 200.0


@pytest.mark.parametrize(("call", "meter"), [("settle", "energy_j"), ("wait", "enlisted_idle_j")])
def test_a_lost_meter_reading_is_found_at_the_end_of_the_round(tiny, call, meter):
    tiny.samples, tiny.idle = [100, 200, 100, 100], "charged"
    server = tiny.build()
    metered = getattr(server._world, call)

    def losing(*args):
        result = metered(*args)
        joules = getattr(server._world, meter)
        joules *= 0.999
        return result

    setattr(server._world, call, losing)

    with pytest.raises(SimulationError, match="joules are not conserved"):
        server.run()


class Forgets(FirstCome):
    """Keeps no outcome."""

    def observe(self, outcome):
        assert [report.vector is not None for report in outcome.reports] == [True, True]


class Remembers(KnownTrainer):
    """Notes how many updates are still held when the next model is evaluated."""

    def __init__(self):
        super().__init__()
        self.vectors: list[weakref.ref[np.ndarray]] = []
        self.held: list[int] = []

    def results(self, tickets):
        done = super().results(tickets)
        self.vectors = [weakref.ref(result.vector) for result in done]
        return done

    def evaluate(self, parameters):
        self.held.append(sum(vector() is not None for vector in self.vectors))
        return super().evaluate(parameters)


def test_no_update_of_a_round_is_held_while_the_next_model_is_evaluated(tiny):
    tiny.server, tiny.trainer = {"cohort": 2}, Remembers()
    tiny.run(stop={"rounds": 2}, selector=Forgets())

    assert tiny.trainer.held == [0, 0]
    assert len(tiny.trainer.vectors) == 2
