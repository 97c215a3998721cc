"""Keys without effect: every warning is true, none is forgotten, bundled scenarios have none."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass

import pytest

import fleetsim
from fleetsim import bundled
from fleetsim.cli import main
from fleetsim.errors import DataError, ScenarioError
from fleetsim.scenario import doubts, load
from fleetsim.settings import Settings
from fleetsim.simulate import run

BASE = """\
name: inert
task:
  dataset: {kind: digits}
  model: {kind: logistic}
  local: {epochs: 1, batch_size: 64, optimizer: {kind: sgd, learning_rate: 0.1}}
fleet:
  size: 6
  devices: {pixel-6: 0.5, t2.small: 0.5}
  channel: {kind: normalised}
server: {cohort: 2}
stop: {rounds: 2}
"""

VMS = "fleet.devices={t2.small: 1.0}"
BOARDS = "fleet.devices={jetson-nano-cpu: 1.0}"
CONSTANT = "fleet.channel={kind: constant, down_bit_per_s: 1.0e6, up_bit_per_s: 1.0e6}"
SHARED = "fleet.shared_links={server_in_bit_per_s: 1.0e6}"
PEOPLE = "fleet.usage.trace=people-week"
MADE_UP = "fleet.usage.synthetic={availability: 0.9}"
EVERYDAY = "fleet.battery.everyday={}"
BUFFERED = "server={mode: buffered, concurrency: 2, buffer_size: 1}"
BLANK = "task.dataset={kind: blank, input_shape: [64]}"
MEMORY = "fleet.memory={kind: share, free_fraction: [0.5, 0.9]}"
SELECTOR = "server.selector={kind: %s}"
VALIDATED = "evaluate.validation_fraction=0.1"


@dataclass(frozen=True)
class Inert:
    """A key that has no effect, and the rest of a scenario in which it has none."""

    change: str
    rest: tuple[str, ...] = ()
    trains: bool = False


def inert(change: str, *rest: str, trains: bool = False) -> Inert:
    return Inert(change, rest, trains)


def selector(kind: str, change: str, *rest: str) -> Inert:
    return Inert(f"server.selector.{change}", (SELECTOR % kind, *rest), trains=True)


CHANNEL_KEYS = {
    "bandwidth_hz": "1.0e6",
    "up_bandwidth_hz": "1.0e6",
    "fading": "none",
    "snr_gap_db": "3",
    "max_bit_per_s_per_hz": "5",
    "outage_bit_per_s_per_hz": "0.1",
}
BELIEF_KEYS = {
    "distance_decay": "0.01",
    "distance_exponent": "2",
    "distance_unit_m": "50",
    "damping": "0.5",
    "tolerance": "0.001",
    "max_exchanges": "10",
}
EXAMPLES = {
    "UsageSettings.trace": inert(PEOPLE, BOARDS),
    "UsageSettings.synthetic": inert(MADE_UP, BOARDS),
    "UsageSettings.shift": inert("fleet.usage.shift=none"),
    "UsageSettings.starts_at_s": inert("fleet.usage.starts_at_s=68400"),
    "UsageSettings.time_zones": inert(
        "fleet.usage.time_zones=[{utc_offset_h: 2, weight: 1}]", PEOPLE, BOARDS
    ),
    "UsageSettings.unknown": inert("fleet.usage.unknown=offline", MADE_UP),
    "UsageSettings.kinds": inert("fleet.usage.kinds=[phone, board]"),
    "EverydaySettings.screen_w": inert("fleet.battery.everyday.screen_w=2", EVERYDAY),
    "EverydaySettings.screen_from_load": inert(
        "fleet.battery.everyday.screen_from_load=0.5", EVERYDAY
    ),
    "EverydaySettings.cpu_w": inert("fleet.battery.everyday.cpu_w=2", EVERYDAY),
    "FleetSettings.battery": inert("fleet.battery={charge_w: 3, initial_fraction: [0, 0]}", VMS),
    "TransferSettings.unmetered_radio": inert("fleet.channel.unmetered_radio=lte", VMS),
    "TransferSettings.metered_radio": inert("fleet.channel.metered_radio=nr-low", MADE_UP),
    "ConstantSettings.down_bit_per_s": inert("fleet.channel.down_bit_per_s=5", VMS, CONSTANT),
    "ConstantSettings.up_bit_per_s": inert("fleet.channel.up_bit_per_s=5", VMS, CONSTANT),
    **{
        f"BlockSettings.{key}": inert(f"fleet.channel.{key}={value}", VMS)
        for key, value in CHANNEL_KEYS.items()
    },
    "BlockSettings.rician_k": inert(
        "fleet.channel={kind: normalised, fading: rician, rician_k: 3}", VMS
    ),
    "BlockSettings.nakagami_m": inert(
        "fleet.channel={kind: normalised, fading: nakagami, nakagami_m: 3}", VMS
    ),
    "BlockSettings.block_s": inert("fleet.channel.block_s=0.05", "fleet.channel.fading=none"),
    "SharedLinksSettings.cells": inert(
        "fleet.shared_links={cells: 2, cell_up_bit_per_s: 10, server_in_bit_per_s: 1.0e6}",
        VMS,
        SHARED,
    ),
    "SharedLinksSettings.cell_up_bit_per_s": inert(
        "fleet.shared_links.cell_up_bit_per_s=10", VMS, SHARED
    ),
    "SharedLinksSettings.cell_down_bit_per_s": inert(
        "fleet.shared_links.cell_down_bit_per_s=10", VMS, SHARED
    ),
    "EnginesSettings.phone": inert("fleet.memory.engines.phone=autograd", VMS, MEMORY),
    "EnginesSettings.board": inert("fleet.memory.engines.board=mnn", VMS, MEMORY),
    "EnginesSettings.vm": inert("fleet.memory.engines.vm=mnn", BOARDS, MEMORY),
    "EligibilitySettings.charging": inert("server.eligibility.charging=true"),
    "EligibilitySettings.unmetered": inert("server.eligibility.unmetered=true"),
    "EligibilitySettings.min_battery_fraction": inert(
        "server.eligibility.min_battery_fraction=0.9", VMS
    ),
    "Condition.charging": inert("server.eligibility.all_of=[{charging: true}]"),
    "Condition.unmetered": inert("server.eligibility.all_of=[{unmetered: true}]"),
    "Condition.min_battery_fraction": inert(
        "server.eligibility.any_of=[{min_battery_fraction: 0.9}]", VMS
    ),
    "SynchronousSettings.interruption": inert("server.interruption={kind: pause}"),
    "BufferedSettings.interruption": inert("server.interruption={kind: pause}", BUFFERED),
    "FedAsyncSettings.staleness": inert(
        "server.aggregator.staleness={kind: hinge}",
        "server.aggregator={kind: fedasync}",
        trains=True,
    ),
    "FedBuffSettings.staleness": inert(
        "server.aggregator.staleness={kind: constant}",
        "server.aggregator={kind: fedbuff}",
        trains=True,
    ),
    "TopKSettings.error_feedback": inert(
        "server.compression.error_feedback=true",
        BLANK,
        "server.compression={kind: top-k, fraction: 0.1}",
    ),
    "Quantise8BitSettings.rounding": inert(
        "server.compression.rounding=nearest", BLANK, "server.compression={kind: quantise-8bit}"
    ),
    "SgdSettings.decay": inert(
        "task.local.optimizer.decay={kind: exponential, factor: 0.5}", BLANK
    ),
    "TrainerSettings.kind": inert("trainer.kind=serial", BLANK),
    "TrainerSettings.precision": inert("trainer={kind: vectorised, precision: mixed}", BLANK),
    "MnistSettings.writers": inert("task.dataset.writers=true", "task.dataset={kind: mnist}"),
    "SynchronousServerSettings.max_update_norm": inert("server.max_update_norm=0.001", BLANK),
    "SynchronousServerSettings.aggregator": inert("server.aggregator={kind: fedavgm}", BLANK),
    "BufferedServerSettings.max_update_norm": inert(
        "server.max_update_norm=0.001", BLANK, BUFFERED
    ),
    "BufferedServerSettings.aggregator": inert(
        "server.aggregator={kind: fedasync}", BLANK, BUFFERED
    ),
    "EvaluateSettings.every_rounds": inert("evaluate.every_rounds=2", BLANK),
    "EvaluateSettings.validation_fraction": inert("evaluate.validation_fraction=0.5", BLANK),
    "DivFlSettings.sample_fraction": selector("divfl", "sample_fraction=0.5"),
    "FedCorSettings.warm_up_fit_steps": selector(
        "fedcor, mean: observed, warm_up_rounds: 1, observed_fit_steps: 3", "warm_up_fit_steps=2"
    ),
    "FedCorSettings.observed_fit_steps": selector(
        "fedcor, warm_up_rounds: 1, warm_up_fit_steps: 3", "observed_fit_steps=2"
    ),
    "PowerOfChoiceSettings.batch": selector("power-of-choice", "batch=4"),
    "PowerOfChoiceSettings.loss": selector(
        "power-of-choice", "loss=first_epoch", "task.local.epochs=2"
    ),
    "SurveySettings.loss": selector("survey, policy: 3", "loss=first_epoch", "task.local.epochs=2"),
    "SurveySettings.ties": selector("survey, policy: 3", "ties=lowest_id"),
    "TiFLSettings.interval_rounds": selector("tifl, num_tiers: 2, rule: none", "interval_rounds=1"),
    "TiFLSettings.trigger": selector("tifl, num_tiers: 2, rule: none", "trigger=every"),
    "OortOptions.pacer_step_s": selector(
        "oort, preferred_percentile: 50, pacer_window_rounds: 1", "pacer_step_s=1"
    ),
    "OortOptions.pacer_step_percent": selector(
        "oort, pacer_window_rounds: 1", "pacer_step_percent=50"
    ),
    "OortOptions.max_blacklist_fraction": selector("oort", "max_blacklist_fraction=0.9"),
    "BpUcbSettings.side_m": selector(
        "bp-ucb, slot_rounds: 1", "side_m=10", "fleet.channel={kind: fading}"
    ),
    **{
        f"BpUcbSettings.{key}": selector(
            "bp-ucb, slot_rounds: 1, potentials: printed", f"{key}={value}"
        )
        for key, value in BELIEF_KEYS.items()
    },
}


def settings_classes() -> list[type[Settings]]:
    """Every settings class of fleetsim."""
    for module in pkgutil.walk_packages(fleetsim.__path__, "fleetsim."):
        if not module.name.startswith("fleetsim.validation"):
            importlib.import_module(module.name)

    def below(parent: type[Settings]) -> list[type[Settings]]:
        return [c for child in parent.__subclasses__() for c in (child, *below(child))]

    found = {c for c in below(Settings) if c.__module__.startswith("fleetsim.")}
    return sorted(found, key=lambda c: (c.__module__, c.__name__))


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base.yaml"
    path.write_text(BASE, encoding="utf-8")
    return path


def test_conditions_are_of_fields_and_each_has_an_example():
    declared = {
        f"{owner.__name__}.{key}"
        for owner in settings_classes()
        for key in owner.__dict__.get("acts_if", {})
    }
    no_field = {
        f"{owner.__name__}.{key}"
        for owner in settings_classes()
        for key in owner.conditions()
        if key not in owner.model_fields
    }

    assert not no_field, f"acts_if names what is no field: {no_field}"
    assert declared == set(EXAMPLES), (
        "add to EXAMPLES a scenario in which the key has no effect, or remove the example, of"
        f" {sorted(declared ^ set(EXAMPLES))}"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_key_that_is_said_to_have_no_effect_has_none(name, base, tmp_path):
    example = EXAMPLES[name]
    key = example.change.partition("=")[0]
    before = load(base, example.rest)
    after = load(base, [*example.rest, example.change])
    lines = [line for line in doubts(after) if line not in doubts(before)]

    assert lines
    assert all(line.startswith(f"--set {example.change}: {key}") for line in lines), lines
    assert all("has no effect" in line and "; " in line for line in lines), lines
    try:
        digests = [
            run(
                scenario, out=tmp_path / str(number), train=example.trains, workers=1
            ).manifest.digest
            for number, scenario in enumerate((before, after))
        ]
    except DataError as missing:
        pytest.skip(f"needs data that is not here: {missing}")
    assert digests[0] == digests[1]


@pytest.mark.parametrize("name", bundled.names("scenarios"))
def test_no_key_of_a_bundled_scenario_is_without_effect(name):
    assert not [line for line in doubts(load(name)) if "has no effect" in line]


@pytest.mark.parametrize(
    "changes",
    [
        ["fleet.usage.starts_at_s=68400", PEOPLE],
        ["server.interruption={kind: pause}", PEOPLE],
        ["server.eligibility.charging=true", MADE_UP],
        ["fleet.channel.metered_radio=nr-low", PEOPLE],
        ["fleet.battery={charge_w: 3}"],
        ["fleet.usage.starts_at_s=0"],
        ["server.interruption={kind: lose}"],
    ],
)
def test_keys_that_act_or_have_their_default_are_not_warned_of(changes, base):
    assert doubts(load(base, changes)) == []


def test_the_key_of_a_mapping_without_effect_is_named_by_its_line(base):
    base.write_text(BASE.replace("cohort: 2}", "cohort: 2,\n  eligibility: {charging: true}}"))

    (line,) = doubts(load(base))

    assert line.startswith(f"{base}:11: server.eligibility.charging = true: has no effect: ")


def test_run_and_validate_print_a_line_and_the_manifest_keeps_it(
    base, tmp_path, monkeypatch, capsys
):
    told = "fleet.usage.starts_at_s = 5: has no effect: nobody in the fleet has an owner"
    for verb in (["validate"], ["run", "--no-train", "--out", str(tmp_path / "run")]):
        words = ["fleetsim", verb[0], str(base), *verb[1:], "--set", "fleet.usage.starts_at_s=5"]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        errors = capsys.readouterr().err.splitlines()

        assert not end.value.code
        assert [line for line in errors if line.startswith("warning: ")] == errors
        assert told in errors[0]
        assert len(errors) == 1
    manifest = fleetsim.open_run(tmp_path / "run").manifest
    assert len(manifest.warnings) == 1
    assert told in manifest.warnings[0]


def test_a_charger_of_a_device_without_a_battery_is_refused(base):
    with pytest.raises(ScenarioError, match=r"charge_w_of.*t2\.small.*no battery to charge"):
        load(base, ['fleet.battery.charge_w_of."t2.small"=5'])


def test_a_kind_that_is_named_twice_is_refused(base):
    with pytest.raises(ScenarioError, match=r"fleet\.usage.*phone.*twice"):
        load(base, ["fleet.usage.kinds=[phone, phone]", PEOPLE])
