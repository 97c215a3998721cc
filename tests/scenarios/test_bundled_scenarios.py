"""Bundled scenarios: each loads, states its purpose, and runs."""

import pytest

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.scenario import load
from fleetsim.simulate import run

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
