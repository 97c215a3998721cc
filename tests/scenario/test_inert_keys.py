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
EVERYDAY = "fleet.battery.everyday={}"
BUFFERED = "server={mode: buffered, concurrency: 2, buffer_size: 1}"
BLANK = "task.dataset={kind: blank, input_shape: [64]}"
ON_PAPER = (
    "task.model={kind: cost, flop_per_sample: {gemm: 1.0e6}, layers: {gemm: 2}, parameters: 9}"
)
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


def pairs(text: str) -> dict[str, str]:
    """Keys with their values, which have no spaces."""
    return dict(pair.split("=") for pair in text.split())


CHANNEL_KEYS = pairs(
    "bandwidth_hz=1.0e6 up_bandwidth_hz=1.0e6 fading=none rate=shannon snr_gap_db=3 "
    "max_bit_per_s_per_hz=5 outage_bit_per_s_per_hz=0.1"
)
OPTIMIZER_KEYS = {
    "decay": "{kind: exponential, factor: 0.5}",
    "warm_up_rounds": "2",
    "within_task": "{kind: cosine}",
    "weight_decay": "0.1",
}
AUGMENTATION_KEYS = pairs("flip_chance=0.5 crop_padding=1 noise_sd=0.1 mixup_alpha=0.2")
MOMENTUM = "task.local.optimizer.momentum=0.9"
MOMENT_KEYS = {
    "AdamOptions": ("adam", pairs("beta1=0.5 beta2=0.5 epsilon=0.1")),
    "AdagradSettings": ("adagrad", pairs("initial_sum=0.5 epsilon=0.1")),
    "RmsPropSettings": ("rmsprop", pairs("alpha=0.5 epsilon=0.1")),
}
FEDMARL_LEARNING = pairs(
    "accuracy_weight=2 latency_weight=2 traffic_weight=2 discount=0.5 exploration=0.5 "
    "exploration_end=0.5 exploration_decay_rounds=2 learning_rate=0.1 batch_size=1 "
    "steps_per_round=1 sync_every_rounds=1 replay_capacity=3"
)
LINK_KEYS = {
    "Placed": pairs("path_loss_exponent_db=20 shadowing_sd_db=8"),
    "Fading": pairs(
        "tx_power_dbm=20 server_tx_power_dbm=40 noise_dbm_per_hz=-170 noise_figure_db=5 "
        "path_loss_db_at_1km=120"
    ),
    "Normalised": pairs("mean_snr_db=10"),
    "Calibrated": pairs("reference_snr_db=10 reference_distance_m=100"),
    "Trace": pairs("shift=none rate_scale=2 up_over_down=0.3"),
}
CHANNELS = {"Placed": "{kind: fading}", "Trace": "{kind: trace, trace: commute-5g}"}
BELIEF_KEYS = pairs(
    "distance_decay=0.01 distance_exponent=2 distance_unit_m=50 damping=0.5 tolerance=0.001 "
    "max_exchanges=10"
)
FAVOR_KEYS = pairs(
    "action=client target_accuracy=0.5 reward_base=8 discount=0.5 learning_rate=0.1 "
    "batch_size=2 steps_per_round=2 replay_capacity=40 sync_in=rounds sync_every=1 "
    "exploration=0.5 exploration_end=0.5 exploration_decay_rounds=1"
)
AUTOFL_LEARNING = pairs(
    "exploration=0.5 learning_rate=0.1 discount=0.5 accuracy_weight=10 gain_weight=100 "
    "unit_j=0.1 cohort_energy=sum previous=best next_state=same"
)
EXAMPLES = {
    "UsageSettings.trace": inert(PEOPLE, BOARDS),
    "UsageSettings.synthetic": inert(MADE_UP, BOARDS),
    "UsageSettings.shift": inert("fleet.usage.shift=none"),
    "UsageSettings.starts_at_s": inert("fleet.usage.starts_at_s=68400"),
    "UsageSettings.time_zones": inert(
        "fleet.usage.time_zones=[{utc_offset_h: 2, weight: 1}]", PEOPLE, BOARDS),
    "UsageSettings.unknown": inert("fleet.usage.unknown=offline", MADE_UP),
    "UsageSettings.pair": inert("fleet.usage.pair=owner",
        BOARDS, PEOPLE, "task.dataset={kind: synthetic}", "task.partition={kind: natural}"),
    "UsageSettings.kinds": inert("fleet.usage.kinds=[phone, board]"),
    "EverydaySettings.screen_w": inert("fleet.battery.everyday.screen_w=2", EVERYDAY),
    "EverydaySettings.screen_from_load": inert(
        "fleet.battery.everyday.screen_from_load=0.5", EVERYDAY),
    "EverydaySettings.cpu_w": inert("fleet.battery.everyday.cpu_w=2", EVERYDAY),
    "BatterySettings.charge_w": inert(
        "fleet.battery.charge_w=3", "fleet.battery={charge_w_of: {pixel-6: 5}}", PEOPLE),
    "FleetSettings.battery": inert("fleet.battery={charge_w: 3, initial_fraction: [0, 0]}", VMS),
    "FleetSettings.network": inert("fleet.network={kind: wifi}", VMS),
    "FleetSettings.wifi": inert(
        "fleet.wifi={kind: constant, down_bit_per_s: 1.0e6, up_bit_per_s: 1.0e6}"),
    "UncertaintySettings.inferred": inert(
        "fleet.uncertainty.inferred=0.3",
        "fleet.devices={reproduction/jetson-nano-fedgcs: 1.0}",
        ON_WIFI,
        f'fleet.channel.unmetered_radio="{TESTS / "plain-radio.yaml"}"',
    ),
    # Of a wired reproduction and its cable the round-trip time alone can have an error.
    "UncertaintySettings.measured": inert("fleet.uncertainty.measured=0.05",
        f'fleet.devices={{"{TESTS / "reproduced-vm.yaml"}": 1.0}}'),
    "TransferSettings.unmetered_radio": inert("fleet.channel.unmetered_radio=lte", VMS),
    "TransferSettings.metered_radio": inert("fleet.channel.metered_radio=nr-low", MADE_UP),
    "ConstantSettings.down_bit_per_s": inert("fleet.channel.down_bit_per_s=5", VMS, CONSTANT),
    "ConstantSettings.up_bit_per_s": inert("fleet.channel.up_bit_per_s=5", VMS, CONSTANT),
    **{
        f"BlockSettings.{key}": inert(f"fleet.channel.{key}={value}", VMS)
        for key, value in CHANNEL_KEYS.items()
    },
    **{
        f"{kind}Settings.{key}": inert(
            f"fleet.channel.{key}={value}",
            VMS,
            f"fleet.channel={CHANNELS.get(kind, f'{{kind: {kind.lower()}}}')}",
        )
        for kind, keys in LINK_KEYS.items()
        for key, value in keys.items()
    },
    "BlockSettings.overhead_fraction": inert(
        "fleet.channel.overhead_fraction=0.2", "fleet.channel={kind: fading, rate: shannon}"),
    "BlockSettings.up_overhead_fraction": inert(
        "fleet.channel.up_overhead_fraction=0.2", "fleet.channel={kind: normalised}"),
    "BlockSettings.rician_k": inert(
        "fleet.channel={kind: normalised, fading: rician, rician_k: 3}", VMS),
    "BlockSettings.nakagami_m": inert(
        "fleet.channel={kind: normalised, fading: nakagami, nakagami_m: 3}", VMS),
    "BlockSettings.block_s": inert("fleet.channel.block_s=0.05", "fleet.channel.fading=none"),
    "SharedLinksSettings.cells": inert(
        "fleet.shared_links={cells: 2, cell_up_bit_per_s: 10, server_in_bit_per_s: 1.0e6}",
        VMS,
        SHARED,
    ),
    "SharedLinksSettings.cell_up_bit_per_s": inert(
        "fleet.shared_links.cell_up_bit_per_s=10", VMS, SHARED),
    "SharedLinksSettings.cell_down_bit_per_s": inert(
        "fleet.shared_links.cell_down_bit_per_s=10", VMS, SHARED),
    "CostSettings.sample_byte": inert("task.model.sample_byte=9", ON_PAPER, BLANK),
    "CostSettings.unfolded_byte": inert("task.model.unfolded_byte=9", ON_PAPER, BLANK),
    "EnginesSettings.phone": inert("fleet.memory.engines.phone=autograd", VMS, MEMORY),
    "EnginesSettings.board": inert("fleet.memory.engines.board=mnn", VMS, MEMORY),
    "EnginesSettings.vm": inert("fleet.memory.engines.vm=mnn", BOARDS, MEMORY),
    "EligibilitySettings.charging": inert("server.eligibility.charging=true"),
    "EligibilitySettings.unmetered": inert("server.eligibility.unmetered=true", ON_WIFI),
    "EligibilitySettings.min_battery_fraction": inert(
        "server.eligibility.min_battery_fraction=0.9", VMS),
    # The smallest device, a t2.small, has 2 GiB.
    "EligibilitySettings.min_ram_gib": inert("server.eligibility.min_ram_gib=2"),
    "Condition.charging": inert("server.eligibility.all_of=[{charging: true}]"),
    "Condition.unmetered": inert("server.eligibility.all_of=[{unmetered: true}]", ON_WIFI),
    "Condition.min_battery_fraction": inert(
        "server.eligibility.any_of=[{min_battery_fraction: 0.9}]", VMS),
    "SynchronousSettings.interruption": inert("server.interruption={kind: pause}"),
    "BufferedSettings.interruption": inert("server.interruption={kind: pause}", BUFFERED),
    "FedAsyncSettings.staleness": inert("server.aggregator.staleness={kind: hinge}",
        "server.aggregator={kind: fedasync}", trains=True),
    "FedBuffSettings.staleness": inert("server.aggregator.staleness={kind: constant}",
        "server.aggregator={kind: fedbuff}", trains=True),
    "TopKSettings.error_feedback": inert("server.compression.error_feedback=true",
        BLANK, "server.compression={kind: top-k, fraction: 0.1}"),
    "Quantise8BitSettings.rounding": inert(
        "server.compression.rounding=nearest", BLANK, "server.compression={kind: quantise-8bit}"),
    **{
        f"LocalOptimizerKind.{key}": inert(f"task.local.optimizer.{key}={value}", BLANK)
        for key, value in OPTIMIZER_KEYS.items()
    },
    "SgdSettings.dampening": inert("task.local.optimizer.dampening=0.1", BLANK, MOMENTUM),
    "SgdSettings.nesterov": inert("task.local.optimizer.nesterov=true", BLANK, MOMENTUM),
    **{
        f"{owner}.{key}": inert(
            f"task.local.optimizer.{key}={value}",
            BLANK,
            f"task.local.optimizer={{kind: {kind}, learning_rate: 0.1}}",
        )
        for owner, (kind, keys) in MOMENT_KEYS.items()
        for key, value in keys.items()
    },
    **{
        f"AugmentationSettings.{key}": inert(
            f"task.local.augmentation.{key}={value}",
            "task.dataset={kind: blank, input_shape: [1, 8, 8]}",
        )
        for key, value in AUGMENTATION_KEYS.items()
    },
    "FedDynSettings.alpha": inert(
        "task.local.algorithm.alpha=0.5", BLANK, "task.local.algorithm={kind: feddyn}"),
    "DittoSettings.personal_weight": inert(
        "task.local.algorithm.personal_weight=0.5", BLANK, "task.local.algorithm={kind: ditto}"),
    "StepSettings.max_gradient_norm": inert("task.local.max_gradient_norm=0.1", BLANK),
    "StepSettings.label_smoothing": inert("task.local.label_smoothing=0.1", BLANK),
    "StepSettings.loss": inert("task.local.loss={kind: focal}", BLANK),
    "TrainerSettings.kind": inert("trainer.kind=serial", BLANK),
    "TrainerSettings.precision": inert("trainer={kind: vectorised, precision: mixed}", BLANK),
    "MnistSettings.writers": inert("task.dataset.writers=true", "task.dataset={kind: mnist}"),
    "SynchronousServerSettings.max_update_norm": inert("server.max_update_norm=0.001", BLANK),
    "SynchronousServerSettings.aggregator": inert("server.aggregator={kind: fedavgm}", BLANK),
    "SynchronousServerSettings.privacy": inert(
        "server.privacy={clip_norm: 1, noise_multiplier: 1, delta: 0.001}",
        BLANK,
        "server.aggregator={kind: fedavg, weights: uniform}",
    ),
    "BufferedServerSettings.max_update_norm": inert(
        "server.max_update_norm=0.001", BLANK, BUFFERED),
    "BufferedServerSettings.aggregator": inert(
        "server.aggregator={kind: fedasync}", BLANK, BUFFERED),
    "EvaluateSettings.every_rounds": inert("evaluate.every_rounds=2", BLANK),
    "EvaluateSettings.validation_fraction": inert("evaluate.validation_fraction=0.5", BLANK),
    "StopSettings.accuracy": inert("stop.accuracy=0.9", BLANK),
    "DivFlSettings.sample_fraction": selector("divfl", "sample_fraction=0.5"),
    **{
        f"FavorKeys.{key}": selector(
            "favor, learning: false, components: 2, hidden: 4", f"{key}={value}"
        )
        for key, value in FAVOR_KEYS.items()
    },
    "FedGCSKeys.surrogate_sets": selector("fedgcs", "surrogate_sets=5", VALIDATED),
    "FedGCSKeys.performance": selector("fedgcs, records: surrogate", "performance=rise"),
    "FedGCSKeys.max_records": selector("fedgcs, records: surrogate", "max_records=9"),
    "FedGCSKeys.exploration_fraction": selector(
        "fedgcs, records: surrogate", "exploration_fraction=1.0"),
    "FedCorSettings.warm_up_fit_steps": selector(
        "fedcor, mean: observed, warm_up_rounds: 1, observed_fit_steps: 3", "warm_up_fit_steps=2"),
    "FedCorSettings.observed_fit_steps": selector(
        "fedcor, warm_up_rounds: 1, warm_up_fit_steps: 3", "observed_fit_steps=2"),
    **{
        f"FedMarlKeys.{key}": selector(
            "fedmarl", f"{key}={value}", "server.selector.learning=false"
        )
        for key, value in FEDMARL_LEARNING.items()
    },
    "PowerOfChoiceSettings.batch": selector("power-of-choice", "batch=4"),
    "PowerOfChoiceSettings.loss": selector(
        "power-of-choice", "loss=first_epoch", "task.local.epochs=2"),
    "SurveySettings.loss": selector("survey, policy: 3", "loss=first_epoch", "task.local.epochs=2"),
    "SurveySettings.ties": selector("survey, policy: 3", "ties=lowest_id"),
    "TiFLSettings.interval_rounds": selector("tifl, num_tiers: 2, rule: none", "interval_rounds=1"),
    "TiFLSettings.trigger": selector("tifl, num_tiers: 2, rule: none", "trigger=every"),
    "OortOptions.pacer_step_s": selector(
        "oort, preferred_percentile: 50, pacer_window_rounds: 1", "pacer_step_s=1"),
    "OortOptions.pacer_step_percent": selector(
        "oort, pacer_window_rounds: 1", "pacer_step_percent=50"),
    "OortOptions.max_blacklist_fraction": selector("oort", "max_blacklist_fraction=0.9"),
    "BpUcbSettings.side_m": selector(
        "bp-ucb, slot_rounds: 1", "side_m=10", "fleet.channel={kind: fading}"),
    **{
        f"BpUcbSettings.{key}": selector(
            "bp-ucb, slot_rounds: 1, potentials: printed", f"{key}={value}"
        )
        for key, value in BELIEF_KEYS.items()
    },
    **{
        f"AutoFLSettings.{key}": selector("autofl, learning: false", f"{key}={value}")
        for key, value in AUTOFL_LEARNING.items()
    },
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
    told = scenario_warnings(changed(before))
    lines = [line for line in scenario_warnings(changed(after)) if line not in told]

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
    told = scenario_warnings(changed(on_paper))
    lines = [
        line for line in scenario_warnings(changed((*on_paper, example.change))) if line not in told
    ]

    assert lines
    assert all(line.startswith(f"--set {example.change}: {key}") for line in lines), lines
    assert all("nothing is trained: the data set is blank, or the model" in line for line in lines)


@pytest.mark.parametrize(
    "change",
    [
        "task.local.optimizer.weight_decay=0.1",
        "server.aggregator={kind: fedavgm}",
        "task.local.loss={kind: focal}",
        "evaluate.every_rounds=2",
    ],
)
def test_keys_of_training_change_no_byte_of_a_run_of_a_model_on_paper(change, digest):
    assert digest((ON_PAPER, change), False) == digest((ON_PAPER,), False)


@pytest.mark.parametrize(
    "change",
    [
        "task.local.epochs=2",
        "task.local.batch_size=8",
        "task.partition={kind: dirichlet, alpha: 0.1}",
        "task.local.algorithm={kind: ditto}",
        "server.compression={kind: top-k, fraction: 0.1}",
    ],
)
def test_keys_of_time_and_bytes_act_on_a_model_on_paper(change, changed, digest):
    warnings = scenario_warnings(changed((ON_PAPER, change)))
    assert [line for line in warnings if "has no effect" in line] == []
    assert digest((ON_PAPER, change), False) != digest((ON_PAPER,), False)


def test_a_model_on_paper_never_reaches_an_accuracy(base):
    with pytest.raises(ScenarioError, match=r"stop.accuracy.* cannot be reached without training"):
        load(base, [ON_PAPER, "stop={accuracy: 0.5}"])


@pytest.mark.slow
def test_no_key_of_a_bundled_scenario_is_without_effect():
    lines = [line for name in bundled.names("scenarios") for line in scenario_warnings(load(name))]

    assert [line for line in lines if "has no effect" in line] == []


@pytest.mark.parametrize(
    "changes",
    [
        ["fleet.usage.starts_at_s=68400", PEOPLE],
        ["server.interruption={kind: pause}", PEOPLE],
        ["server.eligibility.charging=true", MADE_UP],
        ["fleet.channel.metered_radio=nr-low", PEOPLE],
        ["fleet.battery={charge_w: 3}"],
        ["server.eligibility.min_ram_gib=2.1"],
        ["fleet.usage.starts_at_s=0"],
        ["server.interruption={kind: lose}"],
    ],
)
def test_keys_that_act_or_have_their_default_are_not_warned_of(changes, base):
    assert scenario_warnings(load(base, changes)) == []


def test_run_and_validate_print_a_line_and_the_manifest_keeps_it(base, tmp_path, command):
    told = "fleet.usage.starts_at_s = 5: has no effect: no client has an owner"
    change = "fleet.usage.starts_at_s=5"
    done = run(load(base, [change]), out=tmp_path / "run", train=False)
    # The second run is refused, as the folder has one.
    for code, *words in ((0, "validate"), (2, "run", "--no-train", "--out", done.folder)):
        ended = command(*words, base, "--set", change)

        warnings = [line for line in ended.err.splitlines() if not line.startswith("error: ")]
        assert ended.code == code
        assert len(warnings) == 1
        assert warnings[0].startswith("warning: ")
        assert told in warnings[0]
    (kept,) = done.manifest.warnings
    assert told in kept


def test_a_charger_of_a_device_without_a_battery_is_refused(base):
    with pytest.raises(ScenarioError, match=r"charge_w_of.*t2\.small.*no battery to charge"):
        load(base, ['fleet.battery.charge_w_of."t2.small"=5'])


def test_a_charger_of_ones_own_device_is_known_by_the_device_s_name(base, tmp_path, monkeypatch):
    text = (bundled.folder("devices") / "pixel-6.yaml").read_text("utf-8")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    fleet = load(
        base, ["fleet.devices={mine.yaml: 1.0}", "fleet.battery={charge_w_of: {mine.yaml: 5}}"]
    ).fleet

    assert fleet.battery.charge_w_of == {str(tmp_path / "mine.yaml"): 5.0}
    assert list(fleet.devices) == list(fleet.battery.charge_w_of)
