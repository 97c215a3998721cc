"""Equality of the world for two selectors: devices, channel gains and people at any time."""

import numpy as np
import pytest

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
