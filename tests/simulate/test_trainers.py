"""Whole runs with each kind of trainer, and the manifest's word on who trained."""

import pytest

from fleetsim.record.saved_run import Run
from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = ("stop.rounds=5", "server.cohort=5")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Run]:
    home = tmp_path_factory.mktemp("runs")
    return {
        kind: run(load("quickstart", [*SMALL, f"trainer.kind={kind}"]), out=home / kind)
        for kind in ("serial", "stacked", "auto")
    }


@pytest.mark.slow
def test_the_manifest_says_who_trained(runs, tmp_path):
    untrained = run(load("quickstart", SMALL), out=tmp_path / "run", train=False)

    assert untrained.manifest.trainer == "none"
    assert runs["serial"].manifest.trainer == "serial"
    assert runs["stacked"].manifest.trainer == runs["auto"].manifest.trainer == "stacked"


def test_stacked_training_gives_the_same_bytes_again(runs):
    assert runs["stacked"].manifest.digest == runs["auto"].manifest.digest


def test_a_run_learns_as_much_with_either_trainer_and_takes_the_same_time_and_energy(runs):
    serial, stacked = runs["serial"].rounds, runs["stacked"].rounds

    assert serial.accuracy.iloc[-1] > 0.2  # ten classes
    assert abs(serial.accuracy - stacked.accuracy).max() <= 0.02
    for column in ("finished_at_s", "energy_total_j", "num_delivered"):
        assert serial[column].equals(stacked[column])
