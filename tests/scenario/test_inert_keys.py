"""Keys without effect: every warning is true, none is forgotten, bundled scenarios have none."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetsim import bundled
from fleetsim.errors import DataError, ScenarioError
from fleetsim.scenario import load, scenario_warnings
from fleetsim.simulate import run
from tests.scenario.small import MADE_UP, PEOPLE
from tests.settings_walk import all_classes

TESTS = Path(__file__).parents[1]
ON_WIFI = "fleet.network={kind: wifi}"
VMS = "fleet.devices={t2.small: 1.0}"
BOARDS = "fleet.devices={jetson-nano-cpu: 1.0}"
CONSTANT = "fleet.channel={kind: constant, down_bit_per_s: 1.0e6, up_bit_per_s: 1.0e6}"
SHARED = "fleet.shared_links={server_in_bit_per_s: 1.0e6}"
USAGE, CHANNEL, OPTIMIZER = "fleet.usage", "fleet.channel", "task.local.optimizer"
FADING, NORMALISED = "fleet.channel={kind: fading}", "fleet.channel={kind: normalised}"
RATE = "task.local.optimizer={kind: %s, learning_rate: 0.1}"
BUFFERED = "server={mode: buffered, concurrency: 2, buffer_size: 1}"
BLANK = "task.dataset={kind: blank, input_shape: [64]}"
ON_PAPER = (
    "task.model={kind: cost, flop_per_sample: {gemm: 1.0e6}, layers: {gemm: 2}, parameters: 9}"
)
MEMORY = "fleet.memory={kind: share, free_fraction: [0.5, 0.9]}"
SELECTOR = "server.selector={kind: %s}"
VALIDATED = "evaluate.validation_fraction=0.1"
FEDGCS = "fedgcs, weights: fedgcs-quick"
OF_QUICKSTART = (
    VALIDATED,
    "task.partition={kind: dirichlet, alpha: 0.5, min_samples: 5}",
    "fleet={seed: 1, size: 50, channel: {kind: fading}, "
    "usage: {trace: people-week, starts_at_s: 68400}, "
    "devices: {pixel-6: 0.25, oneplus-10-pro: 0.15, redmi-note-10: 0.2, realme-q3s: 0.1, "
    "jetson-nano-cpu: 0.15, t2.small: 0.15}}",
)
"""Clients of the bundled weights of FedGCS."""


@dataclass(frozen=True)
class Inert:
    """A key that has no effect, and the rest of a scenario in which it has none."""

    change: str
    rest: tuple[str, ...] = ()
    trains: bool = False


def inert(change: str, *rest: str) -> Inert:
    return Inert(change, rest)


def of(owner: str, place: str, keys: str, *rest: str, trains: bool = False) -> dict[str, Inert]:
    """Examples of keys of a class, given as `key=value; key=value`."""
    pairs = keys.split("; ")
    return {f"{owner}.{p.partition('=')[0]}": Inert(f"{place}.{p}", rest, trains) for p in pairs}


def selector(owner: str, kind: str, keys: str, *rest: str) -> dict[str, Inert]:
    return of(owner, "server.selector", keys, SELECTOR % kind, *rest, trains=True)


EXAMPLES = {
    "UsageSettings.trace": inert(PEOPLE, BOARDS),
    "UsageSettings.synthetic": inert(MADE_UP, BOARDS),
    **of("UsageSettings", USAGE, "shift=none; starts_at_s=68400; kinds=[phone, board]"),
    **of("UsageSettings", USAGE, "time_zones=[{utc_offset_h: 2, weight: 1}]", PEOPLE, BOARDS),
    **of("UsageSettings", USAGE, "unknown=offline", MADE_UP),
    **of("UsageSettings", USAGE, "pair=owner",
        BOARDS, PEOPLE, "task.dataset={kind: synthetic}", "task.partition={kind: natural}"),
    **of("EverydaySettings", "fleet.battery.everyday",
        "screen_w=2; screen_from_load=0.5; cpu_w=2", "fleet.battery.everyday={}"),
    **of("BatterySettings", "fleet.battery", "charge_w=3",
        "fleet.battery={charge_w_of: {pixel-6: 5}}", PEOPLE),
    **of("FleetSettings", "fleet",
        "battery={charge_w: 3, initial_fraction: [0, 0]}; network={kind: wifi}", VMS),
    **of("FleetSettings", "fleet",
        "wifi={kind: constant, down_bit_per_s: 1.0e6, up_bit_per_s: 1.0e6}"),
    **of("UncertaintySettings", "fleet.uncertainty", "inferred=0.3",
        "fleet.devices={reproduction/jetson-nano-fedgcs: 1.0}", ON_WIFI,
        f'fleet.channel.unmetered_radio="{TESTS / "plain-radio.yaml"}"'),
    # Of a wired reproduction and its cable the round-trip time alone can have an error.
    **of("UncertaintySettings", "fleet.uncertainty", "measured=0.05",
        f'fleet.devices={{"{TESTS / "reproduced-vm.yaml"}": 1.0}}'),
    **of("TransferSettings", CHANNEL, "unmetered_radio=lte", VMS),
    **of("TransferSettings", CHANNEL, "metered_radio=nr-low", MADE_UP),
    **of("ConstantSettings", CHANNEL, "down_bit_per_s=5; up_bit_per_s=5", VMS, CONSTANT),
    **of("BlockSettings", CHANNEL, "bandwidth_hz=1.0e6; up_bandwidth_hz=1.0e6; fading=none; "
        "rate=shannon; snr_gap_db=3; max_bit_per_s_per_hz=5; outage_bit_per_s_per_hz=0.1", VMS),
    **of("PlacedSettings", CHANNEL, "path_loss_exponent_db=20; shadowing_sd_db=8", VMS, FADING),
    **of("FadingSettings", CHANNEL, "tx_power_dbm=20; server_tx_power_dbm=40; "
        "noise_dbm_per_hz=-170; noise_figure_db=5; path_loss_db_at_1km=120", VMS, FADING),
    **of("NormalisedSettings", CHANNEL, "mean_snr_db=10", VMS, NORMALISED),
    **of("CalibratedSettings", CHANNEL, "reference_snr_db=10; reference_distance_m=100",
        VMS, "fleet.channel={kind: calibrated}"),
    **of("TraceSettings", CHANNEL, "shift=none; rate_scale=2; up_over_down=0.3",
        VMS, "fleet.channel={kind: trace, trace: commute-5g}"),
    **of("BlockSettings", CHANNEL, "overhead_fraction=0.2",
        "fleet.channel={kind: fading, rate: shannon}"),
    **of("BlockSettings", CHANNEL, "up_overhead_fraction=0.2", NORMALISED),
    "BlockSettings.rician_k": inert(
        "fleet.channel={kind: normalised, fading: rician, rician_k: 3}", VMS),
    "BlockSettings.nakagami_m": inert(
        "fleet.channel={kind: normalised, fading: nakagami, nakagami_m: 3}", VMS),
    **of("BlockSettings", CHANNEL, "block_s=0.05", "fleet.channel.fading=none"),
    "SharedLinksSettings.cells": inert(
        "fleet.shared_links={cells: 2, cell_up_bit_per_s: 10, server_in_bit_per_s: 1.0e6}",
        VMS, SHARED),
    **of("SharedLinksSettings", "fleet.shared_links",
        "cell_up_bit_per_s=10; cell_down_bit_per_s=10", VMS, SHARED),
    **of("CostSettings", "task.model", "sample_byte=9; unfolded_byte=9", ON_PAPER, BLANK),
    **of("EnginesSettings", "fleet.memory.engines", "phone=autograd; board=mnn", VMS, MEMORY),
    **of("EnginesSettings", "fleet.memory.engines", "vm=mnn", BOARDS, MEMORY),
    # The smallest device, a t2.small, has 2 GiB.
    **of("EligibilitySettings", "server.eligibility", "charging=true; min_ram_gib=2"),
    **of("EligibilitySettings", "server.eligibility", "unmetered=true", ON_WIFI),
    **of("EligibilitySettings", "server.eligibility", "min_battery_fraction=0.9", VMS),
    "Condition.charging": inert("server.eligibility.all_of=[{charging: true}]"),
    "Condition.unmetered": inert("server.eligibility.all_of=[{unmetered: true}]", ON_WIFI),
    "Condition.min_battery_fraction": inert(
        "server.eligibility.any_of=[{min_battery_fraction: 0.9}]", VMS),
    **of("SynchronousSettings", "server", "interruption={kind: pause}"),
    **of("BufferedSettings", "server", "interruption={kind: pause}", BUFFERED),
    **of("FedAsyncSettings", "server.aggregator", "staleness={kind: hinge}",
        "server.aggregator={kind: fedasync}", trains=True),
    **of("FedBuffSettings", "server.aggregator", "staleness={kind: constant}",
        "server.aggregator={kind: fedbuff}", trains=True),
    **of("TopKSettings", "server.compression", "error_feedback=true",
        BLANK, "server.compression={kind: top-k, fraction: 0.1}"),
    **of("Quantise8BitSettings", "server.compression", "rounding=nearest",
        BLANK, "server.compression={kind: quantise-8bit}"),
    **of("LocalOptimizerKind", OPTIMIZER, "decay={kind: exponential, factor: 0.5}; "
        "warm_up_rounds=2; within_task={kind: cosine}; weight_decay=0.1", BLANK),
    **of("SgdSettings", OPTIMIZER, "dampening=0.1; nesterov=true",
        BLANK, "task.local.optimizer.momentum=0.9"),
    **of("AdamOptions", OPTIMIZER, "beta1=0.5; beta2=0.5; epsilon=0.1", BLANK, RATE % "adam"),
    **of("AdagradSettings", OPTIMIZER, "initial_sum=0.5; epsilon=0.1", BLANK, RATE % "adagrad"),
    **of("RmsPropSettings", OPTIMIZER, "alpha=0.5; epsilon=0.1", BLANK, RATE % "rmsprop"),
    **of("AugmentationSettings", "task.local.augmentation",
        "flip_chance=0.5; crop_padding=1; noise_sd=0.1; mixup_alpha=0.2",
        "task.dataset={kind: blank, input_shape: [1, 8, 8]}"),
    **of("FedDynSettings", "task.local.algorithm", "alpha=0.5",
        BLANK, "task.local.algorithm={kind: feddyn}"),
    **of("DittoSettings", "task.local.algorithm", "personal_weight=0.5",
        BLANK, "task.local.algorithm={kind: ditto}"),
    **of("StepSettings", "task.local",
        "max_gradient_norm=0.1; label_smoothing=0.1; loss={kind: focal}", BLANK),
    **of("TrainerSettings", "trainer", "kind=serial", BLANK),
    "TrainerSettings.precision": inert("trainer={kind: vectorised, precision: mixed}", BLANK),
    **of("MnistSettings", "task.dataset", "writers=true", "task.dataset={kind: mnist}"),
    **of("SynchronousServerSettings", "server",
        "max_update_norm=0.001; aggregator={kind: fedavgm}", BLANK),
    **of("SynchronousServerSettings", "server",
        "privacy={clip_norm: 1, noise_multiplier: 1, delta: 0.001}",
        BLANK, "server.aggregator={kind: fedavg, weights: uniform}"),
    **of("BufferedServerSettings", "server",
        "max_update_norm=0.001; aggregator={kind: fedasync}", BLANK, BUFFERED),
    **of("EvaluateSettings", "evaluate", "every_rounds=2; validation_fraction=0.5", BLANK),
    **of("StopSettings", "stop", "accuracy=0.9", BLANK),
    **selector("DivFlSettings", "divfl", "sample_fraction=0.5"),
    **selector("FavorSettings", "favor, learning: false, components: 2, hidden: 4",
        "action=client; target_accuracy=0.5; reward_base=8; discount=0.5; learning_rate=0.1; "
        "batch_size=2; steps_per_round=2; replay_capacity=40; sync_in=rounds; sync_every=1; "
        "exploration=0.5; exploration_end=0.5; exploration_decay_rounds=1"),
    **selector("FedCorSettings", "fedcor, mean: observed, warm_up_rounds: 1, observed_fit_steps: 3",
        "warm_up_fit_steps=2"),
    **selector("FedCorSettings", "fedcor, warm_up_rounds: 1, warm_up_fit_steps: 3",
        "observed_fit_steps=2"),
    **selector("FedGCSSettings", "fedgcs", "surrogate_sets=5", VALIDATED),
    **selector("FedGCSSettings", "fedgcs, records: surrogate",
        "performance=rise; max_records=9"),
    **selector("FedGCSSettings", f"{FEDGCS}, learning: false",
        "exploration_fraction=1.0; refit_rounds=1; refit_epochs=1; patience=1; "
        "held_out_fraction=0.5; batch_size=2; learning_rate=0.1; alpha=0.5; sequence_loss=mean; "
        "shuffles=0", *OF_QUICKSTART),
    **selector("FedGCSSettings", f"{FEDGCS}, refit_rounds: 1, refit_epochs: 1",
        "warm_up_rounds=1; embedding=4; hidden=4; evaluator=4; start=pooled", *OF_QUICKSTART),
    **selector("FedMarlSettings", "fedmarl", "accuracy_weight=2; latency_weight=2; "
        "traffic_weight=2; discount=0.5; exploration=0.5; exploration_end=0.5; "
        "exploration_decay_rounds=2; "
        "learning_rate=0.1; batch_size=1; steps_per_round=1; sync_every_rounds=1; "
        "replay_capacity=3", "server.selector.learning=false"),
    **selector("PowerOfChoiceSettings", "power-of-choice", "batch=4"),
    **selector("PowerOfChoiceSettings", "power-of-choice", "loss=first_epoch",
        "task.local.epochs=2"),
    **selector("SurveySettings", "survey, policy: 3", "loss=first_epoch", "task.local.epochs=2"),
    **selector("SurveySettings", "survey, policy: 3", "ties=lowest_id"),
    **selector("TiFLSettings", "tifl, num_tiers: 2, rule: none",
        "interval_rounds=1; trigger=every"),
    **selector("OortOptions", "oort, preferred_percentile: 50, pacer_window_rounds: 1",
        "pacer_step_s=1"),
    **selector("OortOptions", "oort, pacer_window_rounds: 1", "pacer_step_percent=50"),
    **selector("OortOptions", "oort", "max_blacklist_fraction=0.9"),
    **selector("BpUcbSettings", "bp-ucb, slot_rounds: 1", "side_m=10", FADING),
    **selector("BpUcbSettings", "bp-ucb, slot_rounds: 1, potentials: printed",
        "distance_decay=0.01; distance_exponent=2; distance_unit_m=50; damping=0.5; "
        "tolerance=0.001; max_exchanges=10"),
    **selector("AutoFLSettings", "autofl, learning: false", "exploration=0.5; learning_rate=0.1; "
        "discount=0.5; accuracy_weight=10; gain_weight=100; unit_j=0.1; cohort_energy=sum; "
        "previous=best; next_state=same"),
}  # fmt: skip


def test_conditions_are_of_fields_and_each_has_an_example():
    """A key of a new kind needs no example here if another key has the same condition."""
    declared = {
        f"{owner.__name__}.{key}": condition
        for owner in all_classes()
        for key, condition in owner.__dict__.get("acts_if", {}).items()
    }
    no_field = {
        f"{owner.__name__}.{key}"
        for owner in all_classes()
        for key in owner.conditions()
        if key not in owner.model_fields
    }

    assert not no_field, f"acts_if names what is no field: {no_field}"
    assert EXAMPLES.keys() <= declared.keys()
    shown = {declared[name] for name in EXAMPLES}
    unshown = sorted(name for name, condition in declared.items() if condition not in shown)
    assert not unshown, f"add to EXAMPLES a scenario in which the key has no effect, of {unshown}"


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_key_that_is_said_to_have_no_effect_has_none(name, changed, digest):
    example = EXAMPLES[name]
    key = example.change.partition("=")[0]
    before, after = example.rest, (*example.rest, example.change)
    earlier = scenario_warnings(changed(before))
    lines = [line for line in scenario_warnings(changed(after)) if line not in earlier]

    assert lines
    assert all(line.startswith(f"--set {example.change}: {key}") for line in lines), lines
    assert all("has no effect" in line and "; " in line for line in lines), lines
    try:
        assert digest(after, example.trains) == digest(before, example.trains)
    except DataError as missing:
        pytest.skip(f"needs data that is not here: {missing}")


OF_TRAINING = sorted(name for name, example in EXAMPLES.items() if BLANK in example.rest)
"""Keys that act in training alone, by the examples with the blank data set."""


@pytest.mark.parametrize("name", [one for one in OF_TRAINING if not one.startswith("CostS")])
def test_a_model_on_paper_trains_no_more_than_a_blank_data_set(name, changed):
    example = EXAMPLES[name]
    key = example.change.partition("=")[0]
    dataset = "task.dataset={kind: digits}"
    before = tuple(dataset if change == BLANK else change for change in example.rest)
    if any("mixed" in change or "augmentation" in change for change in (example.change, *before)):
        before = (*before, "task.dataset={kind: mnist}")
    on_paper = (*before, ON_PAPER)
    earlier = scenario_warnings(changed(on_paper))
    lines = [
        line
        for line in scenario_warnings(changed((*on_paper, example.change)))
        if line not in earlier
    ]

    assert lines
    assert all(line.startswith(f"--set {example.change}: {key}") for line in lines), lines
    assert all("nothing is trained: the data set is blank, or the model" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "acts"),
    [
        ("task.local.epochs=2", True), ("task.local.batch_size=8", True),
        ("task.partition={kind: dirichlet, alpha: 0.1}", True),
        ("task.local.algorithm={kind: ditto}", True),
        ("server.compression={kind: top-k, fraction: 0.1}", True),
        ("task.local.optimizer.weight_decay=0.1", False),
        ("server.aggregator={kind: fedavgm}", False),
        ("task.local.loss={kind: focal}", False), ("evaluate.every_rounds=2", False),
    ],
)  # fmt: skip
def test_keys_of_time_and_bytes_alone_act_on_a_model_on_paper(change, acts, changed, digest):
    warnings = scenario_warnings(changed((ON_PAPER, change)))
    assert any("has no effect" in line for line in warnings) != acts
    assert (digest((ON_PAPER, change), False) != digest((ON_PAPER,), False)) == acts


@pytest.mark.slow
def test_no_key_of_a_bundled_scenario_is_without_effect():
    lines = [line for name in bundled.names("scenarios") for line in scenario_warnings(load(name))]

    assert [line for line in lines if "has no effect" in line] == []


@pytest.mark.parametrize(
    "changes",
    [
        ["fleet.usage.starts_at_s=68400", PEOPLE], ["server.interruption={kind: pause}", PEOPLE],
        ["server.eligibility.charging=true", MADE_UP], ["fleet.battery={charge_w: 3}"],
        ["fleet.channel.metered_radio=nr-low", PEOPLE], ["server.eligibility.min_ram_gib=2.1"],
        ["fleet.usage.starts_at_s=0"], ["server.interruption={kind: lose}"],
    ],
)  # fmt: skip
def test_keys_that_act_or_have_their_default_are_not_warned_of(changes, base):
    assert scenario_warnings(load(base, changes)) == []


def test_run_and_validate_print_a_line_and_the_manifest_keeps_it(base, tmp_path, command):
    warning = "fleet.usage.starts_at_s = 5: has no effect: no client has an owner"
    change = "fleet.usage.starts_at_s=5"
    done = run(load(base, [change]), out=tmp_path / "run", train=False)
    # The second run is refused, as the folder has one.
    for code, *words in ((0, "validate"), (2, "run", "--no-train", "--out", done.folder)):
        ended = command(*words, base, "--set", change)

        warnings = [line for line in ended.err.splitlines() if not line.startswith("error: ")]
        assert ended.code == code
        assert len(warnings) == 1
        assert warnings[0].startswith("warning: ")
        assert warning in warnings[0]
    (kept,) = done.manifest.warnings
    assert warning in kept


def test_what_can_never_act_is_refused(base):
    with pytest.raises(ScenarioError, match=r"charge_w_of.*t2\.small.*no battery to charge"):
        load(base, ['fleet.battery.charge_w_of."t2.small"=5'])
    with pytest.raises(ScenarioError, match=r"stop.accuracy.* cannot be reached without training"):
        load(base, [ON_PAPER, "stop={accuracy: 0.5}"])


def test_a_charger_of_ones_own_device_is_known_by_the_device_s_name(base, tmp_path, monkeypatch):
    text = (bundled.folder("devices") / "pixel-6.yaml").read_text("utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    fleet = load(
        base, ["fleet.devices={mine.yaml: 1.0}", "fleet.battery={charge_w_of: {mine.yaml: 5}}"]
    ).fleet

    assert fleet.battery.charge_w_of == {str(tmp_path / "mine.yaml"): 5.0}
    assert list(fleet.devices) == list(fleet.battery.charge_w_of)
