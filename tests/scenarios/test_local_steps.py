"""Runs whose clients train `task.local.steps` steps instead of epochs, and each kind of trainer."""

from pathlib import Path

import numpy as np
import pytest

from fleetsim.record.saved_run import Run
from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = ["fleet.size=12", "server.cohort=4", "stop.rounds=4", "task.model.hidden=[12, 8]"]
BY_STEPS = ["task.local.epochs=null", "task.local.steps=11"]
NO_DEADLINE = "server.deadline_s=null"


def run_of(out: Path, *changes: str) -> Run:
    return run(load("quickstart", [*SMALL, *changes]), out=out, workers=1)


@pytest.mark.slow
def test_steps_that_are_whole_epochs_give_the_same_bytes(tmp_path):
    # 1,437 training digits are 119 or 120 for each of 12 clients: 15 batches of 8.
    even = ["task.partition={kind: iid}", NO_DEADLINE]
    epochs = run_of(tmp_path / "epochs", *even, "task.local.epochs=2")
    steps = run_of(tmp_path / "steps", *even, "task.local.epochs=null", "task.local.steps=30")

    assert epochs.tasks["num_samples"].between(113, 120).all()
    assert steps.manifest.digest == epochs.manifest.digest


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run by steps whose rounds have no deadline."""
    return run_of(tmp_path_factory.mktemp("serial") / "run", *BY_STEPS, NO_DEADLINE)


@pytest.mark.parametrize("kind", ["stacked", "vectorised"])
def test_all_trainers_take_the_same_steps_on_clients_of_unequal_size(kind, serial, tmp_path):
    other = run_of(tmp_path / kind, *BY_STEPS, NO_DEADLINE, f"trainer.kind={kind}")

    # Some go through their digits more than once, some do not come to the end.
    per_epoch = -(-serial.tasks["num_samples"] // 8)
    assert per_epoch.min() < 11 < per_epoch.max()
    np.testing.assert_allclose(other.rounds["loss"], serial.rounds["loss"], rtol=1e-4)
    np.testing.assert_allclose(other.tasks["train_loss"], serial.tasks["train_loss"], rtol=1e-4)


@pytest.mark.parametrize("selector", ["pyramidfl", "fedcs", "tifl"])
def test_selectors_that_count_work_run_by_steps(selector, tmp_path):
    done = run_of(tmp_path / selector, *BY_STEPS, f"server.selector.kind={selector}")

    assert len(done.rounds) == 4
    delivered = done.tasks[(done.tasks["outcome"] == "delivered") & (done.tasks["train_flop"] > 0)]
    epochs, rest = np.divmod(11, -(-delivered["num_samples"] // 8))
    flop = 3 * 2 * (64 * 12 + 12 * 8 + 8 * 10) * (epochs * delivered["num_samples"] + rest * 8)
    if selector == "pyramidfl":  # gives some clients more
        assert (delivered["train_flop"] >= flop).all()
    else:
        assert (delivered["train_flop"] == flop).all()


FIVE = ("stop.rounds=5", "server.cohort=5")


def test_a_run_learns_as_much_with_either_trainer_and_takes_the_same_time_and_energy(tmp_path):
    runs = {}
    for kind in ("serial", "stacked", "auto"):
        scenario = load("quickstart", [*FIVE, f"trainer.kind={kind}"])
        runs[kind] = run(scenario, out=tmp_path / kind)
    untrained = run(load("quickstart", FIVE), out=tmp_path / "none", train=False)
    serial, stacked = runs["serial"].rounds, runs["stacked"].rounds

    trainers = [done.manifest.trainer for done in (untrained, *runs.values())]
    assert trainers == ["none", "serial", "stacked", "stacked"]
    assert runs["stacked"].manifest.digest == runs["auto"].manifest.digest
    assert serial.accuracy.iloc[-1] > 0.2  # ten classes
    assert abs(serial.accuracy - stacked.accuracy).max() <= 0.02
    for column in ("finished_at_s", "energy_total_j", "num_delivered"):
        assert serial[column].equals(stacked[column])


NUM_VALUES = 64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10  # quickstart's 2NN

KINDS: dict[str, tuple[dict[str, object], int]] = {
    "none": ({"kind": "none"}, 4 * NUM_VALUES),
    "8-bit": ({"kind": "quantise-8bit", "bucket_size": 512}, NUM_VALUES + 8 * 108),
    "top-k": ({"kind": "top-k", "fraction": 0.1}, 8 * 5521),
}
"""Settings and bytes of an upload: 8 byte per bucket of 512 (107.8 of them), or per entry kept."""


def test_smaller_uploads_take_less_time_and_energy_and_the_model_still_learns(tmp_path):
    runs, first_round = {}, {}
    for name, (kind, upload_byte) in KINDS.items():
        scenario = load("quickstart", {"stop.rounds": 12, "server.compression": kind})
        runs[name] = run(scenario, out=tmp_path / name)
        tasks = runs[name].tasks
        delivered = tasks[tasks.outcome == "delivered"]
        assert set(delivered.upload_byte) == {upload_byte}
        assert set(delivered.download_byte) == {4 * NUM_VALUES}
        first_round[name] = delivered[delivered["round"] == 1].set_index("client")
    plain = first_round["none"]

    for name in ("8-bit", "top-k"):
        compressed = first_round[name]
        both = plain.index.intersection(compressed.index)
        assert len(both) > 0
        assert (compressed.upload_s[both] < plain.upload_s[both]).all()
        assert (compressed.energy_transmit_j[both] <= plain.energy_transmit_j[both]).all()
        assert runs[name].manifest.virtual_s < runs["none"].manifest.virtual_s
        first, last = runs[name].rounds.accuracy.iloc[[0, -1]]
        assert last > first + 0.2
