"""Entries of lists and mappings: none is repeated, and a warning names those without effect."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load, scenario_warnings
from fleetsim.selectors.baselines.fixed import ClientIds
from tests.scenario.small import BASE, MADE_UP, PEOPLE
from tests.settings_walk import all_classes

MADE_UP_OF = "fleet.usage={{synthetic: {{availability: 0.9}}, kinds: {}}}"
STEPS = "task.local.optimizer.decay={{kind: steps, after_rounds: {}, factor: 0.5}}"
ZONES = "fleet.usage.time_zones=[{utc_offset_h: 0, weight: 1}, {utc_offset_h: 1, weight: 1}]"
RARE = "fleet.devices={pixel-6: 0.5, t2.small: 0.499, pixel-3: 0.001}"
"""Of 6 clients, 3 have a pixel-6 and 2.994, so 3, a t2.small; nobody is left for the pixel-3."""


class Entry(NamedTuple):
    """An entry that has no effect: what is set with it and without it, and what is said of it."""

    key: str
    entry: str
    present: tuple[str, ...]
    absent: tuple[str, ...]
    message: str
    trains: bool = False


EXAMPLES = {
    "FleetSettings.devices": [
        Entry('fleet.devices["t2.small"]', "0.01",
            ("fleet.devices={pixel-6: 0.99, t2.small: 0.01}",), ("fleet.devices={pixel-6: 1.0}",),
            "no client has this device; raise that or fleet.size, or leave it out"),
        Entry("fleet.devices.pixel-6", "0.01",
            ("fleet.devices={jetson-nano-cpu: 0.99, pixel-6: 0.01}", PEOPLE),
            ("fleet.devices={jetson-nano-cpu: 1.0}", PEOPLE), "no client has this device"),
    ],
    "UsageSettings.kinds": [
        Entry("fleet.usage.kinds[1]", "'board'", (MADE_UP_OF.format("[phone, board]"),),
            (MADE_UP_OF.format("[phone]"),),
            "the fleet has no board; add a board to fleet.devices, or leave it out"),
        Entry("fleet.usage.kinds[0]", "'phone'",
            (MADE_UP_OF.format("[phone, board]"), "fleet.devices={jetson-nano-cpu: 1.0}"),
            (MADE_UP_OF.format("[board]"), "fleet.devices={jetson-nano-cpu: 1.0}"),
            "the fleet has no phone; add a phone to fleet.devices"),
    ],
    "BatterySettings.charge_w_of": [
        Entry("fleet.battery.charge_w_of.pixel-3", "5",
            (RARE, "fleet.battery={charge_w_of: {pixel-6: 5, pixel-3: 5}}"),
            (RARE, "fleet.battery={charge_w_of: {pixel-6: 5}}"), "no client has this device"),
    ],
    "StepDecaySettings.after_rounds": [
        Entry("task.local.optimizer.decay.after_rounds[1]", "2", (STEPS.format("[1, 2]"),),
            (STEPS.format("[1]"),),
            "the run ends with stop.rounds at the latest; raise stop.rounds, or leave it out",
            trains=True),
    ],
}  # fmt: skip

TWICE = [
    (MADE_UP_OF.format("[phone, vm, phone]"), "fleet.usage.kinds[2] = 'phone'", 0),
    ("server.selector={kind: fixed, clients: [4, 1, 1]}", "server.selector.clients[2] = 1", 1),
    ("server.selector={kind: random, from_sets: [[0, 1], [2, 2]]}",
     "server.selector.from_sets[1][1] = 2", 0),
    ("server.eligibility.all_of=[{none_of: [{min_ram_gib: 4}, {min_ram_gib: 4}]}]",
     "server.eligibility.all_of[0].none_of[1]", 0),
    ("fleet.usage.time_zones=[{utc_offset_h: 2, weight: 1}, {utc_offset_h: 2, weight: 3}]",
     "fleet.usage.time_zones[1].utc_offset_h = 2", 0),
    ("fleet.channel.upload_success=[{probability: 1, share: 0.5}, {probability: 0.5, share: 0.2},"
     " {probability: 0.5, share: 0.3}]", "fleet.channel.upload_success[2].probability = 0.5", 1),
]  # fmt: skip


def test_every_condition_on_entries_has_an_example():
    declared = {
        f"{owner.__name__}.{key}"
        for owner in all_classes()
        for key in owner.__dict__.get("entries_act_if", {})
    }

    assert declared == EXAMPLES.keys(), "an entry without effect is an example"


@pytest.mark.parametrize("example", [entry for entries in EXAMPLES.values() for entry in entries])
def test_an_entry_that_is_said_to_have_no_effect_has_none(example, changed, digest):
    lines, others = (
        [line for line in scenario_warnings(changed(changes)) if example.key in line]
        for changes in (example.present, example.absent)
    )

    assert not others
    (line,) = lines
    assert f": {example.key} = {example.entry}: has no effect: " in line
    assert example.message in line
    assert digest(example.present, example.trains) == digest(example.absent, example.trains)


@pytest.mark.parametrize(("change", "place", "first"), TWICE)
def test_an_entry_that_stands_twice_is_refused_where_it_stands_again(change, place, first, base):
    changes = [MADE_UP, change] if "time_zones" in change else [change]
    with pytest.raises(ScenarioError) as fault:
        load(base, changes)

    (line,) = fault.value.faults
    assert f": {place}: is named twice, here and in entry {first}; name it once" in line


@pytest.mark.parametrize(
    "changes",
    [
        [MADE_UP_OF.format("[phone, vm]")], [MADE_UP_OF.format("[vm, phone]")], [MADE_UP, ZONES],
        ["fleet.devices={pixel-6: 0.9, t2.small: 0.1}"],
        [STEPS.format("[1]")], [STEPS.format("[1, 2, 50]"), "stop.rounds=51"],
        ["fleet.battery={charge_w_of: {pixel-6: 5}}"],
        ["fleet.devices={pixel-6: 0.5, pixel-3: 0.5}",
         "fleet.battery={charge_w: 3, charge_w_of: {pixel-6: 5}}"],
        ["server.selector={kind: round-robin, sets: [[0, 1], [0, 1], [2]]}"],
    ],
)  # fmt: skip
def test_entries_that_act_are_not_warned_of(changes, base):
    assert scenario_warnings(load(base, changes)) == []


def test_the_line_of_an_entry_names_file_and_line_and_the_entry_as_it_was_written(base, tmp_path):
    usage = (
        "  usage:\n    synthetic: {availability: 0.9}\n    kinds:\n      - phone\n      - board\n"
    )
    text = (bundled.folder("devices") / "pixel-6.yaml").read_text("utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    devices = BASE.replace("{pixel-6: 0.5, t2.small: 0.5}", "{t2.small: 0.99, mine.yaml: 0.01}")
    base.write_text(devices.replace("server:", usage + "server:"), encoding="utf-8")

    lines = scenario_warnings(load(base))

    assert any(': fleet.devices["mine.yaml"] = 0.01: has no effect' in line for line in lines)
    kinds = f"{base}:14: fleet.usage.kinds[1] = 'board': has no effect: "
    assert any(line.startswith(kinds) for line in lines)


def test_at_most_twenty_lines_are_of_entries_and_one_of_time_zones_without_effect(base):
    zones = "fleet.usage.time_zones=[{utc_offset_h: 0, weight: 2}]"
    lines = scenario_warnings(load(base, [STEPS.format(list(range(1, 31)))]))
    (line,) = scenario_warnings(load(base, [MADE_UP, zones]))

    # Of 30 rounds the first acts, as the run has two.
    assert len(lines) == 21
    assert lines[-1] == "... and 9 more"
    assert "fleet.usage.time_zones" in line
    assert "has no effect: all clocks show virtual time" in line
    assert "set a utc_offset_h other than 0" in line


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12))
def test_a_list_is_taken_if_and_only_if_it_has_no_entry_twice(clients):
    adapter = TypeAdapter(ClientIds)
    assert adapter.json_schema()["uniqueItems"] is True  # for editors
    if len(set(clients)) == len(clients):
        assert adapter.validate_python(tuple(clients)) == tuple(clients)
        return
    with pytest.raises(ValidationError) as fault:
        adapter.validate_python(tuple(clients))
    (second,) = fault.value.errors()[0]["ctx"]["key_path"]
    assert clients[second] in clients[:second]
    assert len(set(clients[:second])) == second
