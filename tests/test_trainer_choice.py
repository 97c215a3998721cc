"""`trainer.kind`: the trainer of a run, and the hashes that it is part of."""

from __future__ import annotations

import json

import pytest

from fleetsim.errors import ScenarioError
from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = ["stop.rounds=3", "server.cohort=5"]


def test_the_trainer_is_part_of_the_result_but_not_of_the_world():
    one, other = (load("quickstart", [f"trainer.kind={kind}"]) for kind in ("serial", "stacked"))

    assert one.content_hash != other.content_hash
    assert one.world_hash == other.world_hash


def test_a_trainer_that_cannot_train_the_model_is_a_fault_of_the_scenario():
    changes = ["trainer.kind=stacked", "task.model={kind: lenet5}"]

    with pytest.raises(ScenarioError, match=r"trainer.kind .*lenet5; use auto or serial"):
        load("quickstart", changes)


@pytest.mark.parametrize(
    ("change", "train", "trainer"),
    [
        ("trainer.kind=auto", True, "stacked"),
        ("trainer.kind=serial", True, "serial"),
        ("trainer.kind=stacked", False, "none"),
        ("task.model={kind: fedgra-cnn}", True, "channels-last"),
        ("trainer.kind=vectorised", True, "vectorised"),
    ],
)
def test_the_manifest_says_who_trained(change, train, trainer, tmp_path):
    scenario = load("quickstart", ["stop.rounds=1", "server.cohort=1", change])
    run(scenario, out=tmp_path / "run", train=train)

    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["trainer"] == trainer


def test_stacked_training_gives_the_same_bytes_again(tmp_path):
    scenario = load("quickstart", [*SMALL, "trainer.kind=stacked"])
    digests = [run(scenario, out=tmp_path / name).manifest.digest for name in ("one", "two")]

    assert digests[0] == digests[1]


def test_a_run_learns_as_much_with_either_trainer_and_takes_the_same_time_and_energy(tmp_path):
    serial, stacked = (
        run(load("quickstart", ["stop.rounds=40", f"trainer.kind={kind}"]), out=tmp_path / kind)
        for kind in ("serial", "stacked")
    )

    assert serial.rounds.accuracy.iloc[-1] > 0.85
    assert abs(serial.rounds.accuracy - stacked.rounds.accuracy).iloc[-10:].max() <= 0.02
    for column in ("finished_at_s", "energy_total_j", "num_delivered"):
        assert serial.rounds[column].equals(stacked.rounds[column])
