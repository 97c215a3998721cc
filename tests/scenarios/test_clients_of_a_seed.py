"""Clients that stay the same in runs of other seeds (`fleet.seed`)."""

import numpy as np
import pytest

import fleetsim

SHORT = ["stop.rounds=3", "evaluate.validation_fraction=0.1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    changes = {"plain": [], "named": ["fleet.seed=1"], "other": ["seed=2"]}
    changes["other run"] = ["seed=2", "fleet.seed=1"]
    home = tmp_path_factory.mktemp("runs")
    scenarios = {name: fleetsim.load("quickstart", [*SHORT, *changes[name]]) for name in changes}
    return {name: (scenarios[name], fleetsim.run(scenarios[name], out=home / name))
        for name in changes}  # fmt: skip


def who(run):
    clients = run.clients
    columns = ["device", "num_samples", "battery_initial_j"]
    return clients[columns].fillna({"battery_initial_j": 0.0}).to_numpy().tolist()


def test_clients_are_those_of_the_seed_that_is_named_or_else_of_the_scenario(runs):
    plain, one = runs["plain"]
    for name in ("named", "other run"):
        scenario, run = runs[name]
        assert scenario.clients_hash == plain.clients_hash
        assert who(run) == who(one)
        for table, column in (("tasks", "client"), ("rounds", "accuracy")):
            are_same = getattr(run, table)[column].tolist() == getattr(one, table)[column].tolist()
            assert are_same == (name == "named")
    other, two = runs["other"]
    assert other.clients_hash != plain.clients_hash
    assert who(two) != who(one)


def test_the_accuracy_on_samples_kept_for_selectors_is_on_record(runs, tmp_path):
    _, run = runs["plain"]
    without = fleetsim.run(fleetsim.load("quickstart", ["stop.rounds=1"]), out=tmp_path / "run")

    accuracy = run.rounds["validation_accuracy"].to_numpy()
    assert ((accuracy > 0.0) & (accuracy < 1.0)).all()
    # 10 % of the 1,437 training samples, rounded down, are kept.
    assert np.allclose(accuracy * 143, np.round(accuracy * 143))
    assert "validation_accuracy" not in without.rounds
