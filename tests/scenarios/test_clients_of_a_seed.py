"""Clients that stay the same in runs of other seeds (`fleet.seed`)."""

import numpy as np
import pytest

import fleetsim

SHORT = ["stop.rounds=3", "evaluate.validation_fraction=0.1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    def made(name: str, *more: str):
        scenario = fleetsim.load("quickstart", [*SHORT, *more])
        return scenario, fleetsim.run(scenario, out=tmp_path_factory.mktemp("runs") / name)

    return {
        "plain": made("plain"),
        "named": made("named", "fleet.seed=1"),
        "other run": made("other-run", "seed=2", "fleet.seed=1"),
        "other": made("other", "seed=2"),
    }


def who(run):
    clients = run.clients
    columns = ["device", "num_samples", "battery_initial_j"]
    return clients[columns].fillna({"battery_initial_j": 0.0}).to_numpy().tolist()


@pytest.mark.slow
def test_the_seed_of_the_scenario_is_the_default(runs):
    (plain, one), (named, same) = runs["plain"], runs["named"]

    assert plain.clients_hash == named.clients_hash
    assert one.tasks.equals(same.tasks)
    assert one.rounds.equals(same.rounds)


def test_runs_of_other_seeds_meet_the_same_clients_and_choose_others(runs):
    (plain, one), (again, other) = runs["plain"], runs["other run"]

    assert plain.clients_hash == again.clients_hash
    assert who(one) == who(other)
    assert one.tasks["client"].tolist() != other.tasks["client"].tolist()
    assert one.rounds["accuracy"].tolist() != other.rounds["accuracy"].tolist()


def test_another_seed_alone_gives_other_clients(runs):
    (plain, one), (other, two) = runs["plain"], runs["other"]

    assert plain.clients_hash != other.clients_hash
    assert who(one) != who(two)


def test_the_accuracy_on_samples_kept_for_selectors_is_on_record(runs, tmp_path):
    _, run = runs["plain"]
    without = fleetsim.run(fleetsim.load("quickstart", ["stop.rounds=1"]), out=tmp_path / "run")

    accuracy = run.rounds["validation_accuracy"].to_numpy()
    assert ((accuracy > 0.0) & (accuracy < 1.0)).all()
    # 10 % of the 1,437 training samples, rounded down, are kept.
    assert np.allclose(accuracy * 143, np.round(accuracy * 143))
    assert "validation_accuracy" not in without.rounds
