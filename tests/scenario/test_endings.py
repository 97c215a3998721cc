"""Every run ends: rules that cannot hold are refused, the others are bounded and say so."""

import pytest

from fleetsim.engine.servers.stop import (
    MOST_ROUNDS,
    MOST_ROUNDS_WITHOUT,
    MOST_WAIT_S,
    StopSettings,
    WithoutUpdates,
)
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load, scenario_warnings
from fleetsim.scenario.shortest_tasks import TaskSize, deadline_fault
from fleetsim.selectors.baselines.uniform import RandomSelector, RandomSettings
from fleetsim.simulate import run
from fleetsim.simulate.built_parts import task_request
from fleetsim.training.preparation import prepare_task

QUICK = ("fleet.size=6", "server.cohort=2", "server.over_commit=1.0", "task.partition={kind: iid}")
PHONE = "fleet.devices={pixel-6: 1.0}"
BLANK = "task.dataset={kind: blank, input_shape: [64]}"
NATURAL = "task.partition={kind: natural}"
BUFFERED = "server={mode: buffered, concurrency: 2, buffer_size: 1}"


def quick(*changes):
    return load("quickstart", [*QUICK, *changes])


def test_a_target_that_only_training_reaches_needs_another_rule_without_training(tmp_path):
    with pytest.raises(ScenarioError, match=r"stop\.accuracy = 0\.9: cannot .*set stop\.rounds"):
        run(quick("stop={accuracy: 0.9}"), out=tmp_path / "run", train=False)
    assert not (tmp_path / "run").exists()

    scenario = quick("stop={accuracy: 0.9, rounds: 2}")
    done = run(scenario, out=tmp_path / "run", train=False)

    assert done.manifest.stop_rule == "rounds"
    assert scenario_warnings(scenario) == []
    (line,) = scenario_warnings(scenario, train=False)
    assert line.startswith("stop.accuracy = 0.9: has no effect")
    assert done.manifest.warnings == (line,)


def test_without_a_number_of_rounds_a_stated_one_ends_the_run_and_some_rule_must():
    stop = StopSettings(accuracy=0.99)
    before = stop.after_round(round_=MOST_ROUNDS - 1, accuracy=0.5, energy_total_j=1.0)
    reason = stop.after_round(round_=MOST_ROUNDS, accuracy=0.5, energy_total_j=1.0)
    planned = StopSettings(rounds=2 * MOST_ROUNDS)

    assert before is None
    assert reason is not None
    assert reason.rule == "rounds"
    assert "100000 rounds done" in reason.text
    assert "set it for more" in reason.text
    assert planned.after_round(round_=MOST_ROUNDS, accuracy=None, energy_total_j=1.0) is None
    quick("stop={time_s: 31536000}")
    with pytest.raises(ScenarioError, match="stop: does not say when the run ends"):
        quick("stop={}")


@pytest.fixture
def away(tmp_path):
    """A trace of two users who are never online at the same time, and change every hour."""
    folder = tmp_path / "away"
    folder.mkdir()
    rows = ["user,t_s,online,charging,unmetered,load"]
    for user in (0, 1):
        rows += [f"{user},{3600 * h},{(h + user) % 2},1,1,0" for h in range(24)]
    (folder / "states.csv").write_text("\n".join(rows) + "\n")
    (folder / "users.csv").write_text("user,span_s\n0,86400\n1,86400\n")
    return folder


def test_a_server_that_waits_for_more_than_ever_come_at_once_gives_up(away, tmp_path):
    changes = ["fleet.size=2", f"fleet.usage={{trace: {away}, shift: none}}"]
    scenario = quick(PHONE, *changes, "server={cohort: 2, minimum_reports: 2}", BLANK)

    done = run(scenario, out=tmp_path / "run", train=False)

    assert done.manifest.stop_rule == "no_clients"
    assert "waited 28 days" in str(done.manifest.stop_text)
    assert MOST_WAIT_S < done.manifest.virtual_s <= MOST_WAIT_S + 2 * 3600


NEVER_IN_TIME = ("server.deadline_s=0.01", "late")
TOO_SLOW = ("fleet.channel={kind: constant, down_bit_per_s: 1, up_bit_per_s: 1}", "link")
NONE_ARRIVES = ("fleet.channel.upload_success=[{share: 1.0, probability: 1.0e-6}]", "link")
BOARDS = (
    "fleet={size: 12, devices: {jetson-nano-cpu: 1.0}, channel: {kind: constant,"
    " down_bit_per_s: 1.0e+6, up_bit_per_s: 1.0e+6}}",
    "task.partition={kind: iid}",
    "stop={time_s: 1.0e+9}",
)


@pytest.mark.parametrize(
    "mode", ["mode: synchronous, cohort: 4", "mode: buffered, concurrency: 4, buffer_size: 3"]
)
@pytest.mark.parametrize(("why", "outcome"), [NEVER_IN_TIME, TOO_SLOW, NONE_ARRIVES])
def test_a_run_to_which_nothing_is_delivered_ends_after_twenty_tasks_a_client(
    mode, why, outcome, tmp_path
):
    scenario = load("quickstart", [BLANK, *BOARDS, f"server={{{mode}}}", why])

    done = run(scenario, out=tmp_path / "run", train=False)

    # 20 for each of 12 clients, and the others of the last round or in flight.
    num_lost = int((done.tasks["outcome"] == outcome).sum())
    assert done.manifest.stop_rule == "no_updates"
    assert 240 <= num_lost <= 243
    assert [failure.kind for failure in done.manifest.failures] == ["nothing_delivered"]


def test_tasks_rounds_and_weeks_without_an_update_are_bounded():
    for size, most in ((1, 200), (50, 1_000), (250, 5_000), (1_000_000, 5_000)):
        counted = WithoutUpdates(size)
        counted.end(most - 1, num_delivered=0, now_s=1.0)
        assert counted.reason(1.0) is None
        counted.end(1, num_delivered=0, now_s=2.0)
        reason = counted.reason(2.0)
        assert reason is not None
        assert reason.rule == "no_updates"
        counted.end(1, num_delivered=1, now_s=3.0)
        assert counted.reason(3.0) is None
    counted = WithoutUpdates(1_000)
    for _ in range(MOST_ROUNDS_WITHOUT):
        assert counted.reason(0.0) is None
        counted.close(aggregated=False)
    slow = WithoutUpdates(1_000)
    slow.end(19, num_delivered=0, now_s=1.0)
    few = slow.reason(2 * MOST_WAIT_S)
    slow.end(1, num_delivered=0, now_s=1.0)

    assert "rounds in a row" in str(counted.reason(0.0))
    assert few is None  # long tasks, of which too few have ended
    assert slow.reason(MOST_WAIT_S) is None
    assert "in 28 days" in str(slow.reason(MOST_WAIT_S + 1.5))


def test_a_deadline_that_no_client_can_meet_is_found_before_the_run():
    few = [BLANK, *BOARDS, "task.model={kind: 2nn, hidden: [200, 200]}", BUFFERED]

    def fault(deadline_s):
        scenario = load("quickstart", [*few, f"server.deadline_s={deadline_s}"])
        task = task_request(scenario)
        prepared = prepare_task(task, train=False, torch_device="cpu", workers=1)
        size = TaskSize(
            prepared.samples.num_samples,
            None,
            prepared.cost,
            prepared.upload_byte(scenario.server.compression),
        )
        return deadline_fault(scenario, size)

    # 64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10 numbers of 32 bit at 1 Mbit/s: 1.76672 s.
    assert "at least 1.77 s for the download" in str(fault(1.76))
    assert fault(600) is None
    assert fault("null") is None


class _Nobody(RandomSelector):
    """Selector that selects nobody."""

    num_asked = 0

    def select(self, view):
        self.num_asked += 1
        return view.candidates[:0]


@pytest.mark.parametrize("server", ["server={cohort: 2}", BUFFERED])
def test_a_selector_that_selects_nobody_is_asked_less_and_less_often(server, away, tmp_path):
    states = (away / "states.csv").read_text().replace(",3600,", ",60,")
    (away / "states.csv").write_text(states)
    changes = ["fleet.size=2", f"fleet.usage={{trace: {away}, shift: none}}", server]
    nobody = _Nobody(RandomSettings())

    done = run(quick(PHONE, *changes, BLANK), out=tmp_path / "run", train=False, selector=nobody)

    # At every change, at most, but 100 times at first: n^2 / 2 seconds are four weeks at 2,200.
    assert done.manifest.stop_rule == "no_clients"
    assert "the selector selects none" in str(done.manifest.stop_text)
    assert nobody.num_asked < 2_400


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["fleet.size=100000"], r"fleet\.size = 100000: .*1438 training samples; at most 1438"),
        (["task.partition={kind: one-class}", "task.dataset={kind: emnist, split: letters}"],
         r"fleet\.size = 6: .* 6 clients cannot hold 26 labels"),
        ([NATURAL], r"partition\.kind.*digits has no clients of its own"),
        ([NATURAL, "task.dataset={kind: mnist}"], r"partition\.kind.*set that, or choose"),
        ([NATURAL, "task.dataset={kind: mnist, writers: true}", "fleet.size=600"],
         r"fleet\.size = 600: the data set has 539 clients"),
    ],
)  # fmt: skip
def test_a_fleet_that_its_data_set_cannot_feed_is_found_without_the_data(changes, message):
    with pytest.raises(ScenarioError, match=message):
        quick(*changes)
