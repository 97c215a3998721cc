"""Equality of the world for two selectors: devices, channel gains and people at any time."""

import numpy as np
import pytest

import fleetsim
from fleetsim.fleet.devices.profile import load_radio
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.population import Fleet, build_fleet
from fleetsim.scenario import load
from fleetsim.simulate import run
from tests.fleet.alone import transfer

AT_S = np.random.default_rng(7).uniform(0.0, 3e6, size=20)  # five laps of a week


@pytest.fixture(scope="module")
def fleets() -> list[Fleet]:
    """Fleets of two scenarios that differ in the selector alone, built one after another."""
    made = []
    for kind in ("random", "oort"):
        scenario = load("quickstart", [f"server.selector.kind={kind}"])
        sizes = np.full(scenario.fleet.size, 20, dtype=np.int64)
        made.append(build_fleet(scenario.fleet, seed=scenario.seed, num_samples=sizes))
    return made


def test_switching_the_selector_changes_nothing_in_the_world_whatever_was_asked_before(fleets):
    one, other = fleets
    clients = np.arange(one.size)
    for t_s in AT_S[::-1]:  # query one of them far ahead and back first
        transfer(other.channel, 3, Direction.UP, t_s, 1e7, load_radio("lte"))
        other.usage.steps.next_change_after(clients, t_s)

    assert np.array_equal(one.device, other.device)
    assert np.array_equal(one.initial_j, other.initial_j, equal_nan=True)
    for t_s in AT_S:
        states, others = one.usage.state_at(clients, t_s), other.usage.state_at(clients, t_s)
        for name in ("online", "charging", "unmetered", "load"):
            assert np.array_equal(getattr(states, name), getattr(others, name))
        for client in (0, 3, 17, 49):
            for direction in Direction:
                rate = one.channel.rate_at(client, direction, t_s)
                assert rate == other.channel.rate_at(client, direction, t_s)


def test_a_client_that_two_selectors_dispatch_at_one_time_has_the_same_task(tmp_path):
    small = ["stop.rounds=1", "server.over_commit=1.0", "server.cohort=40"]
    tasks = {}
    for kind in ("random", "round-robin"):
        scenario = load("quickstart", [*small, f"server.selector.kind={kind}"])
        frame = run(scenario, out=tmp_path / kind, train=False).tasks
        tasks[kind] = frame.set_index("client")
    both = tasks["random"].index.intersection(tasks["round-robin"].index)
    columns = ["device", "download_s", "compute_s", "upload_s", "energy_idle_j", "outcome"]

    assert len(both) > 0
    assert tasks["random"].loc[both, columns].equals(tasks["round-robin"].loc[both, columns])


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
