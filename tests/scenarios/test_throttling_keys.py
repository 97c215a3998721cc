"""The keys of a scenario that slow devices down, from the file to the records."""

import numpy as np
import pytest

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = [
    "fleet.size=10", "fleet.devices={pixel-6: 0.5, t2.small: 0.5}", "fleet.usage.trace=null",
    "server.cohort=10", "server.over_commit=1", "server.deadline_s=null", "stop.rounds=1",
    "task.local.epochs=4000",
]  # fmt: skip


COOL = "fleet.thermal={kind: none}"


def tasks_of(tmp_path, *changes):
    scenario = load("quickstart", [*SMALL, *changes])
    return run(scenario, out=tmp_path / "run", train=False).tasks


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Tasks of devices that nothing slows down."""
    return tasks_of(tmp_path_factory.mktemp("plain"), COOL)


def test_a_lower_clock_takes_longer_and_fewer_joules(plain, tmp_path):
    slow = tasks_of(tmp_path, COOL, "task.local.clock_fraction=0.5")

    # 0.27 of the time is bound by the clock, and a quarter of the power is left
    assert np.allclose(slow.compute_s, (0.27 / 0.5 + 0.73) * plain.compute_s)
    assert np.allclose(slow.energy_compute_j, plain.energy_compute_j * 1.27 / 4)


def test_heat_slows_phones_alone(plain, tmp_path):
    warm = tasks_of(tmp_path)
    is_phone = plain.device == "pixel-6"
    # beyond the 36 s in which a cool phone meets the first threshold
    is_long = is_phone & (plain.compute_s > 60)

    assert is_long.any()
    assert (warm.compute_s[is_long] > 1.01 * plain.compute_s[is_long]).all()
    assert (warm.energy_compute_j[is_long] < plain.energy_compute_j[is_long]).all()
    assert np.array_equal(warm.compute_s[~is_phone], plain.compute_s[~is_phone])


def test_the_manifest_names_devices_that_heat_does_not_slow(tmp_path):
    devices = "fleet.devices={pixel-6: 0.4, jetson-nano-gpu: 0.4, t2.small: 0.2}"
    for name, changes in {"warm": [], "cool": [COOL]}.items():
        scenario = load("quickstart", [*SMALL, devices, "task.local.epochs=1", *changes])
        done = run(scenario, out=tmp_path / name, train=False)

        phones = ["pixel-6"] if changes else []
        assert list(done.manifest.not_slowed_by_heat) == [*phones, "jetson-nano-gpu"]


def test_heat_is_on_unless_the_scenario_switches_it_off(tmp_path):
    """Also in fleets that heat does not slow, because a run folder's scenario states it."""
    assert load("quickstart").fleet.thermal.kind == "skin"
    boards = load("quickstart", ["fleet.devices={jetson-nano-cpu: 1.0}"])
    path = tmp_path / "scenario.yaml"
    path.write_text(boards.to_yaml())

    assert load(path).fleet.thermal == boards.fleet.thermal


NAMES = bundled.names("scenarios")


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_survives_being_written_out_and_read_again(name, tmp_path):
    scenario = load(name)
    path = tmp_path / "again.yaml"
    path.write_text(scenario.to_yaml(), encoding="utf-8")

    again = load(path)

    assert again.content_hash == scenario.content_hash
    assert again.world_hash == scenario.world_hash


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_runs_two_rounds(name, tmp_path):
    scenario = load(name, ["stop.rounds=2", "stop.time_s=864000"])
    try:
        done = run(scenario, out=tmp_path / "run", train=False)
    except DataError as missing:
        pytest.skip(f"{name} needs data that is not here: {missing}")

    assert done.manifest.stop_rule == "rounds"
    assert int(done.rounds.aggregated.sum()) == 2
    assert (done.tasks.outcome == "delivered").any()
