"""Every run ends: rules that cannot hold are refused, the others are bounded and say so."""

from __future__ import annotations

import pytest

from fleetsim.engine.servers.stop import MOST_ROUNDS, MOST_WAIT_S, StopSettings
from fleetsim.errors import ScenarioError
from fleetsim.learning.data.digits import DigitsSettings
from fleetsim.learning.data.loading import load_dataset
from fleetsim.scenario import load, scenario_warnings
from fleetsim.simulate import run

QUICK = ("fleet.size=6", "server.cohort=2", "server.over_commit=1.0", "task.partition={kind: iid}")
PHONE = "fleet.devices={pixel-6: 1.0}"
BLANK = "task.dataset={kind: blank, input_shape: [64]}"
BUFFERED = "server={mode: buffered, concurrency: 2, buffer_size: 1}"


def quick(*changes):
    return load("quickstart", [*QUICK, *changes])


def test_a_target_that_only_training_reaches_is_refused_without_training(tmp_path):
    scenario = quick("stop={accuracy: 0.9}")

    with pytest.raises(ScenarioError, match=r"stop\.accuracy = 0\.9: cannot .*set stop\.rounds"):
        run(scenario, out=tmp_path / "run", train=False)
    assert not (tmp_path / "run").exists()


def test_a_target_that_a_blank_data_set_cannot_reach_is_refused_at_once():
    with pytest.raises(ScenarioError, match=r"stop.*: stop\.accuracy = 0\.9: cannot be reached"):
        quick(BLANK, "stop={accuracy: 0.9}")


def test_a_target_beside_another_rule_is_warned_of_without_training(tmp_path):
    scenario = quick("stop={accuracy: 0.9, rounds: 2}")
    done = run(scenario, out=tmp_path / "run", train=False)

    assert done.manifest.stop_rule == "rounds"
    assert scenario_warnings(scenario) == []
    (line,) = scenario_warnings(scenario, train=False)
    assert line.startswith("stop.accuracy = 0.9: has no effect")
    assert done.manifest.warnings == (line,)


def test_a_scenario_that_does_not_say_when_it_ends_is_refused():
    with pytest.raises(ScenarioError, match="stop: does not say when the run ends"):
        quick("stop={}")
    quick("stop={time_s: 31536000}")


def test_without_a_number_of_rounds_a_stated_one_ends_the_run():
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


@pytest.mark.slow
def test_a_buffered_server_gives_up_likewise(away, tmp_path):
    changes = ["fleet.size=2", f"fleet.usage={{trace: {away}, shift: none}}", BUFFERED]
    more = ["server.eligibility.any_of=[{min_ram_gib: 500}]"]
    scenario = quick(PHONE, *changes, BLANK)
    picky = quick(PHONE, *changes, *more, BLANK, "stop={time_s: 1.0e+9}")

    done = run(scenario, out=tmp_path / "run", train=False)
    ended = run(picky, out=tmp_path / "picky", train=False)

    assert done.manifest.stop_rule == "rounds"
    assert ended.manifest.stop_rule == "no_clients"
    assert ended.manifest.virtual_s <= MOST_WAIT_S + 2 * 3600


def test_a_deadline_shorter_than_any_task_ends_with_its_rounds(tmp_path):
    scenario = quick("server.deadline_s=0.001", "stop={rounds: 20}")
    done = run(scenario, out=tmp_path / "run", train=False)

    assert done.manifest.stop_rule == "rounds"
    assert int(done.rounds["num_delivered"].sum()) == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["fleet.size=100000"], r"fleet\.size = 100000: .*1438 training samples; at most 1438"),
        (
            ["task.partition={kind: one-class}", "task.dataset={kind: emnist, split: letters}"],
            r"fleet\.size = 6: .* 6 clients cannot hold 26 labels",
        ),
        (["task.partition={kind: natural}"], r"partition\.kind.*digits has no clients of its own"),
        (
            ["task.dataset={kind: mnist}", "task.partition={kind: natural}"],
            r"partition\.kind.*set that, or choose",
        ),
        (
            ["task.dataset={kind: mnist, writers: true}", "task.partition={kind: natural}",
             "fleet.size=600"],
            r"fleet\.size = 600: the data set has 539 clients",
        ),
    ],
)  # fmt: skip
def test_a_fleet_that_its_data_set_cannot_feed_is_found_without_the_data(changes, says):
    with pytest.raises(ScenarioError, match=says):
        quick(*changes)


def test_the_known_size_of_digits_is_that_of_the_data():
    digits = load_dataset(DigitsSettings(), seed=1, num_clients=1)

    assert DigitsSettings().num_training() == len(digits.train_labels)
    assert DigitsSettings().num_labels() == digits.num_classes
