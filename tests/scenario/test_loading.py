"""Scenarios beyond their single settings, and their outline; bad ones are in bad_input."""

import shutil

import pytest

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load, outline


def hashes(*changes, seed=None):
    scenario = load("quickstart", changes, seed=seed)
    return scenario.content_hash, scenario.world_hash


def test_the_selector_is_not_part_of_the_world():
    run, world = hashes()
    other_run, other_world = hashes("server.selector.kind=oort")

    assert (other_run != run, other_world == world) == (True, True)


@pytest.mark.parametrize(
    "change",
    [
        "fleet.size=49",
        "fleet.battery.charge_w=5.0",
        "task.local.epochs=1",
        "task.partition.alpha=0.6",
        "evaluate.validation_fraction=0.1",
        "seed=2",
    ],
)
def test_fleet_task_and_seed_make_another_world(change):
    assert hashes(change)[1] != hashes()[1]


def test_the_trainer_is_part_of_the_result_but_not_of_the_world():
    (serial, world), (stacked, same) = (
        hashes(f"trainer.kind={kind}") for kind in ("serial", "stacked")
    )

    assert (serial != stacked, same == world) == (True, True)


def test_a_trainer_that_cannot_train_the_model_is_a_fault_of_the_scenario():
    changes = ["trainer.kind=stacked", "task.model={kind: lenet5}"]

    with pytest.raises(ScenarioError, match=r"trainer.kind .*lenet5; use auto or serial"):
        load("quickstart", changes)


def test_what_cannot_change_the_result_does_not_change_the_identity():
    assert hashes("checkpoint.every_rounds=3") == hashes()
    assert hashes("server.cohort=8", "seed=1") == hashes()  # as the file says


@pytest.mark.slow
def test_files_of_ones_own_count_from_the_scenario_and_are_found_from_anywhere(
    tmp_path, monkeypatch
):
    home = tmp_path / "mine"
    (home / "hardware").mkdir(parents=True)
    shutil.copy(bundled.folder("devices") / "pixel-6.yaml", home / "hardware" / "my-phone.yaml")
    shutil.copy(bundled.folder("radios") / "lte.yaml", home / "my-radio.yaml")
    shutil.copytree(bundled.folder("traces") / "people-week", home / "my-people")
    shutil.copytree(bundled.folder("traces") / "commute-5g", home / "my-network")
    shutil.copy(bundled.folder("scenarios") / "quickstart.yaml", home / "scenario.yaml")
    changes = [
        "fleet.devices={hardware/my-phone.yaml: 1.0}",
        "fleet.channel={kind: trace, trace: my-network, metered_radio: my-radio.yaml}",
        "fleet.usage.trace=my-people",
        "task.dataset={kind: mnist, folder: my-people}",
    ]

    scenario = load(home / "scenario.yaml", changes)
    (tmp_path / "resolved.yaml").write_text(scenario.to_yaml(), encoding="utf-8")
    monkeypatch.chdir("/")
    again = load(tmp_path / "resolved.yaml")

    fleet, dataset = scenario.data()["fleet"], scenario.data()["task"]["dataset"]
    assert list(fleet["devices"]) == [str(home / "hardware" / "my-phone.yaml")]
    assert fleet["channel"]["metered_radio"] == str(home / "my-radio.yaml")
    assert fleet["channel"]["trace"] == str(home / "my-network")
    assert fleet["usage"]["trace"] == dataset["folder"] == str(home / "my-people")
    assert again == scenario


def test_the_market_is_no_file_even_where_one_is_called_so(tmp_path, monkeypatch):
    (tmp_path / "market").mkdir()
    monkeypatch.chdir(tmp_path)

    scenario = load("quickstart", ["fleet.devices={market: 0.5, pixel-6: 0.5}"])

    assert scenario.fleet.devices == {"market": 0.5, "pixel-6": 0.5}


def test_over_commitment_of_a_tenth_fits_a_fleet_that_is_a_tenth_larger():
    changes = ["server.cohort=100", "server.over_commit=1.1"]
    load("quickstart", [*changes, "fleet.size=110"])

    with pytest.raises(ScenarioError, match=r"over_commit = 1\.1: .* must be at most 1\.09$"):
        load("quickstart", [*changes, "fleet.size=109"])


def test_the_most_over_commitment_that_a_message_names_is_accepted():
    # 50 / 7 = 7.142857...; rounded to 7.14286 it would ask for 51 clients.
    with pytest.raises(ScenarioError, match=r"must be at most 7\.1428$"):
        load("quickstart", ["server.cohort=7", "server.over_commit=8"])
    load("quickstart", ["server.cohort=7", "server.over_commit=7.1428"])


def lines_of(name, overrides=(), **keys):
    return {
        line.split()[0]: line.split(None, 1)[1] for line in outline(load(name, overrides, **keys))
    }


def test_a_buffered_server_says_what_closes_its_rounds():
    by_answers = lines_of("quickstart-fedbuff", {"server.deadline_s": 60})
    by_time = lines_of("quickstart-fedbuff", {"server.buffer_size": None, "server.window_s": 2.5})

    assert by_answers["server"] == (
        "buffered, 12 clients at work, a round every 8 answers, selector random, aggregator"
        " fedbuff, deadline 60 s"
    )
    assert ", a round every 2.5 s, " in by_time["server"]


def test_the_rules_that_end_a_run_are_all_named():
    outlined = lines_of("quickstart", stop={"accuracy": 0.9, "energy_j": 2e6, "time_s": 7200})

    assert outlined["stop"] == "accuracy 0.9 or 2e+06 J or 7200 s of virtual time"
