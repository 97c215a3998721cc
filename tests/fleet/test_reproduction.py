"""Devices that reproduce a paper's figures and are no devices: labelled wherever they go."""

from fleetsim import simulate
from fleetsim.catalogue import listing
from fleetsim.fleet.devices.profile import device_names, load_device, reproduction_names
from fleetsim.scenario import load, reproductions, scenario_warnings

NAME = "reproduction/jetson-nano-fedgcs"
LABEL = "reproduction:jetson-nano-fedgcs"


def test_it_is_listed_apart_and_says_what_it_is():
    devices = listing("devices")

    assert reproduction_names() == [NAME]
    assert NAME not in device_names()
    assert NAME not in {row[0] for row in devices.rows}
    assert f"Not physical, for comparison with a paper alone: {NAME}" in devices.note
    assert "not physical" in load_device(NAME).title


def test_a_scenario_with_it_warns_and_its_tables_carry_the_label(tmp_path):
    changes = [f"fleet.devices={{{NAME}: 1.0}}", "fleet.usage={trace: null}", "stop.rounds=1"]
    scenario = load("quickstart", changes)
    warning, *_ = scenario_warnings(scenario)
    done = simulate.run(scenario, out=tmp_path / "run", train=False)

    assert warning.startswith(f"fleet.devices: {LABEL} is a reproduction, not physical:")
    assert scenario_warnings(load("quickstart")) == []
    assert set(done.tasks.device) == {LABEL}
    assert [name for name, _ in reproductions(scenario)] == [LABEL]


def test_a_file_of_ones_own_may_say_so_too(tmp_path):
    path = tmp_path / "theirs.yaml"
    path.write_text("extends: pixel-6\ntitle: Theirs\nreproduction: figures of their paper\n")

    assert load_device(str(path)).name == "reproduction:theirs"
    assert load_device("pixel-6").reproduction is None
