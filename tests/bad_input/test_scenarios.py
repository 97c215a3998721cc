"""Faults of a scenario, of what it names and of its learning task: exit 2, one line, no file."""

import gzip

import pytest

from tests.bad_input.good import DEVICE, GOOD, STATES, USERS, Bad, bad, scenario, write

POWER = DEVICE[DEVICE.index("power:") : DEVICE.index("wifi:")]


def device(old: str, new: str, *parts: str) -> Bad:
    """A fault in a device file of one's own."""
    assert old in DEVICE
    text = DEVICE.replace(old, new, 1)
    return Bad("pixel-6: 0.5", "own.yaml: 0.5", parts, {"own.yaml": text})


def private(aggregator: str, selector: str, sampling: str, *parts: str) -> Bad:
    """A server with privacy, an aggregator, a kind of selector and the accountant's assumption."""
    return bad(
        "minimum_reports: 1\n  selector: {kind: random}",
        f"privacy: {{clip_norm: 1, noise_multiplier: 1, delta: 1e-5, sampling: {sampling}}}\n"
        f"  aggregator: {aggregator}\n  selector: {{kind: {selector}}}",
        *parts,
    )


def secure(key: str, selector: str, *parts: str) -> Bad:
    """A server with secure aggregation, another key and a kind of selector."""
    return bad(
        "minimum_reports: 1\n  selector: {kind: random}",
        f"minimum_reports: 3\n  secure_aggregation: {{kind: secagg}}\n  {key}\n"
        f"  selector: {{kind: {selector}}}",
        *parts,
    )


COHORT = "\n  cohort: 3\n  over_commit: 1.0\n  deadline_s: 60\n  minimum_reports: 1"
MIN_BATTERY = "  minimum_reports: 1", "  eligibility: {min_battery_fraction: 0.1}"
DEVICES = "\n    pixel-6: 0.5\n    t2.small: 0.5"
SCENARIOS = {
    # keys
    "unknown key": bad("cohort: 3", "cohrot: 3", "bad.yaml:19: server.cohrot = 3", "'cohort'"),
    # values
    "sample larger than memory": bad("kind: digits", "kind: blank, input_shape: [1000000, 1000000]",
        "bad.yaml:4: task.dataset.input_shape", "at most 100000000"),
    # names
    "unknown selector": bad(
        "kind: random", "kind: power_of_choise", "bad.yaml:23: server.selector.kind",
        "did you mean 'power-of-choice'?"),
    "unknown device": bad("pixel-6: 0.5", "pixel-66: 0.5", "bad.yaml:14: fleet.devices.pixel-66",
        "did you mean 'pixel-6'?"),
    "cells of a channel without a band": bad("kind: fading}",
        "kind: constant, up_bit_per_s: 1e6, down_bit_per_s: 1e6}\n  shared_links: {cells: 3}",
        "bad.yaml:17: fleet.shared_links.cells = 3", "'constant' has no band; give"),
    "shared links of a buffered server": bad(
        f"kind: fading}}\n  usage: {{trace: null}}\nserver:{COHORT}",
        "kind: fading}\n  shared_links: {cell_up_bit_per_s: 1e8}\nserver:\n  mode: buffered\n"
        "  concurrency: 3\n  buffer_size: 1",
        "bad.yaml:17: fleet.shared_links", "server.mode = 'synchronous'"),
    "shared links of tasks that may go on": bad("kind: fading}\n  usage: {trace: null}\nserver:\n",
        "kind: fading}\n  shared_links: {cell_up_bit_per_s: 1e8}\nserver:\n"
        "  interruption: {kind: pause}\n",
        "bad.yaml:19: server.interruption.kind = 'pause'", "fleet.shared_links", "'lose'"),
    "unknown radio": bad("kind: fading", "kind: fading, metered_radio: lt",
        "bad.yaml:16: fleet.channel.metered_radio", "did you mean 'lte'?"),
    "radio without power of its own": bad(
        "kind: fading", "kind: fading, metered_radio: wifi", "wifi.yaml", "'lte'"),
    "cable on a metered network": bad(
        "kind: fading", "kind: fading, metered_radio: wired", "radio 'wired'", "cellular", "'lte'"),
    "cable on a wireless device": bad(
        "kind: fading", "kind: fading, unmetered_radio: wired", "radio 'wired'", "is a cable"),
    "more than the radio's class": bad("kind: fading", "kind: fading, tx_power_dbm: 24",
        "bad.yaml:16: fleet.channel.tx_power_dbm = 24", "radio 'lte'", "at most 23 dBm"),
    "Wi-Fi only where nobody has it": bad(
        "t2.small: 0.5\n  channel: {kind: fading}\n  usage: {trace: null}\nserver:\n",
        "redmi-note-10: 0.5\n  channel: {kind: fading}\nserver:\n"
        "  eligibility: {unmetered: true}\n",
        "bad.yaml:18: server.eligibility.unmetered", "fleet.network.kind = 'wifi'"),
    "access point beyond the wall": bad(
        "channel: {kind: fading}", "wifi: {kind: indoor, min_distance_m: 20}",
        "bad.yaml:16: fleet.wifi", "min_distance_m = 20 is beyond radius_m = 10"),
    "unknown trace": bad("trace: null", "trace: people-weak", "bad.yaml:17: fleet.usage.trace",
        "did you mean 'people-week'?"),
    "usage trace for a network": bad(
        "kind: fading", "kind: trace, trace: people-week", "people-week", "no rates.csv",
        "fleet.usage.trace"),
    # what belongs together
    "shares over 1": bad(
        "pixel-6: 0.5", "pixel-6: 0.6", "bad.yaml:13: fleet.devices", "must sum to 1", "1.1"),
    "no devices": bad(DEVICES, " {}", "bad.yaml:13: fleet.devices", "name one, such as"),
    "cohort larger than the fleet": bad(
        "cohort: 3", "cohort: 9", "bad.yaml:19: server.cohort = 9", "at most", "fleet.size = 8"),
    "more chosen than there are": bad("over_commit: 1.0", "over_commit: 3",
        "bad.yaml:20: server.over_commit = 3", "at most 2.66"),
    "more at work than there are": bad(
        COHORT, "\n  mode: buffered\n  concurrency: 9\n  buffer_size: 2",
        "bad.yaml:20: server.concurrency = 9", "at most", "fleet.size = 8"),
    "a window longer than the run": bad(
        COHORT, "\n  mode: buffered\n  concurrency: 3\n  window_s: 1e8",
        "bad.yaml:21: server.window_s = 100000000", "at most stop.time_s = 3.1536e+07"),
    "more reports than the cohort": bad(
        "minimum_reports: 1", "minimum_reports: 4", "bad.yaml:22: server.minimum_reports = 4",
        "at most", "3"),
    "privacy of single updates": private(
        "{kind: median}", "random", "none", "bad.yaml:23: server.aggregator.kind = 'median'",
        "a noisy sum"),
    "privacy of weighted updates": private(
        "{kind: fedavg}", "random", "none", "server.aggregator.weights", "must be uniform"),
    "privacy of losses that are told": private(
        "{kind: fedavg, weights: uniform}", "oort", "none", "server.selector.kind = 'oort'",
        "is told the loss"),
    "privacy of losses in a variant": private(
        "{kind: fedavg, weights: uniform}", "power-of-choice, variant: rpow-d", "none",
        "server.selector.kind = 'power-of-choice'", "every chosen client"),
    "privacy of an even draw that is none": private(
        "{kind: fedavg, weights: uniform}", "round-robin", "poisson",
        "server.privacy.sampling = 'poisson'", "random alone does; set none"),
    "privacy of a buffered server": bad(COHORT,
        "\n  mode: buffered\n  concurrency: 3\n  buffer_size: 2\n"
        "  privacy: {clip_norm: 1, noise_multiplier: 1, delta: 1e-5}",
        "bad.yaml:22: server.privacy", "'synchronous'"),
    "secure aggregation of single updates": secure(
        "aggregator: {kind: krum, num_byzantine: 0}", "random",
        "server.aggregator.kind = 'krum'", "shows sums alone"),
    "secure aggregation of updates one at a time": secure(
        "aggregator: {kind: fedasync}", "random", "server.aggregator.kind = 'fedasync'"),
    "secure aggregation with a selector of gradients": secure(
        "aggregator: {kind: fedavg}", "gpfl", "server.selector.kind = 'gpfl'", "hides"),
    "secure aggregation of compressed updates": secure(
        "compression: {kind: top-k, fraction: 0.1}", "random",
        "server.compression.kind = 'top-k'", "under the masks"),
    "secure aggregation of screened updates": secure(
        "max_update_norm: 3", "random", "server.max_update_norm = 3", "needs single updates"),
    "an odd number of neighbours": bad(
        "minimum_reports: 1", "secure_aggregation: {kind: secagg-plus, neighbours: 3}",
        "bad.yaml:22: server.secure_aggregation.neighbours = 3", "multiple of 2"),
    "too few reports for krum": bad(
        "minimum_reports: 1", "minimum_reports: 2\n  aggregator: {kind: krum, num_byzantine: 0}",
        "bad.yaml:22: server.minimum_reports = 2", "must be at least 3", "'krum'"),
    "too small a buffer for krum": bad(COHORT,
        "\n  mode: buffered\n  concurrency: 3\n  buffer_size: 2\n"
        "  aggregator: {kind: krum, num_byzantine: 0}",
        "bad.yaml:21: server.buffer_size = 2", "must be at least 3", "'krum'"),
    "windows for krum": bad(COHORT,
        "\n  mode: buffered\n  concurrency: 3\n  window_s: 2\n"
        "  aggregator: {kind: krum, num_byzantine: 0}",
        "bad.yaml:21: server.window_s = 2", "needs 3; set server.buffer_size"),
    "parts that count for less in a median": bad("minimum_reports: 1",
        "interruption: {kind: partial, weight: processed}\n  aggregator: {kind: median}",
        "bad.yaml:22: server.interruption.weight = 'processed'", "must be samples", "'median'"),
    "battery of the eligible below the cut-off": bad(
        *MIN_BATTERY, "bad.yaml:22: server.eligibility.min_battery_fraction = 0.1",
        "above fleet.battery.cutoff_fraction = 0.15"),
    "battery levels the wrong way round": bad(
        "usage: {trace: null}", "battery: {initial_fraction: [0.9, 0.5]}",
        "bad.yaml:17: fleet.battery", "[low, high]"),
    "heat that no client feels": bad(
        DEVICES, " {jetson-nano-cpu: 1.0}\n  thermal: {kind: skin, ambient_c: 30}",
        "fleet.thermal", "heats no client"),
    "epochs and steps": bad(
        "epochs: 1", "epochs: 1\n    steps: 20", "task.local", "give either epochs or steps"),
    "neither epochs nor steps": bad(
        "epochs: 1", "epochs: null", "task.local", "give either epochs or steps"),
    # what selectors need
    "named clients outside of the fleet": bad(
        "kind: random", "kind: fixed, clients: [0, 8]", "bad.yaml:23: server.selector.clients",
        "no client 8", "0 to 7"),
    "more sets of clients than are kept apart": bad(
        "kind: random", "kind: quick-init-ucb, max_sets: 55",
        "bad.yaml:23: server.selector.kind = 'quick-init-ucb'", "56 sets of 3", "fleet.size",
        "server.cohort", "'bp-ucb'", "server.selector.max_sets"),
    "cohort too small for the guarantee": bad(
        "kind: random", "kind: rbcs-f, guaranteed_fraction: 0.5", "bad.yaml:23: server.selector"),
    "selector that follows samples that nobody keeps": bad(
        "kind: random", "kind: gpfl", "bad.yaml:23: server.selector", "gpfl",
        "evaluate.validation_fraction"),
    "selector that learns from samples that nobody keeps": bad(
        "kind: random", "kind: favor", "bad.yaml:23: server.selector", "favor",
        "evaluate.validation_fraction", "learning: false"),
    "selector that needs the number of rounds, which is unknown": bad(
        "selector: {kind: random}\nstop: {rounds: 2}", "selector: {kind: tifl}\nstop: {time_s: 9}",
        "bad.yaml:23: server.selector.credits", "stop.rounds", "credits: unlimited"),
    "two devices of one name": bad(
        "t2.small: 0.5", "./pixel-6.yaml: 0.5", "bad.yaml:15: fleet.devices", "'pixel-6'", "rename",
        files={"pixel-6.yaml": DEVICE}),
    # files of one's own
    "device without power": device(POWER, "", "own.yaml:1: power: missing"),
    "radio with negative watts": bad(
        "kind: fading", "kind: fading, unmetered_radio: radio.yaml",
        "radio.yaml:5: tail_w.value = -1", ">= 0", files={"radio.yaml": "title: r\n"
            "power_from: device\n# three\ntail_s: {value: 1, source: s}\n"
            "tail_w: {value: -1, source: s}\n"}),
    "trace of nothing": bad(
        "trace: null", "trace: own", "own/states.csv, row 2", "empty", "at least one row",
        files={"own/states.csv": STATES, "own/users.csv": USERS}),
    "trace without users": bad("trace: null", "trace: own", "own/users.csv", "no such file",
        files={"own/states.csv": STATES + "ann,0,1,1,1,0\n"}),
    "trace cut off in the middle": bad(
        "trace: null", "trace: own", "own/states.csv.gz, row", "fetch the file again",
        files={"own/users.csv": USERS,
            "own/states.csv.gz": gzip.compress(f"{STATES}ann,0,1,1,1,0\n".encode())[:-9]}),
}  # fmt: skip


@pytest.mark.parametrize("fault", SCENARIOS.values(), ids=SCENARIOS)
def test_a_fault_of_the_scenario_or_of_a_file_that_it_names_is_one_line(fault, refused_twice):
    line = refused_twice(scenario(fault))

    for part in fault.parts:
        assert part in line


def test_the_good_scenario_is_good(command):
    write({"good.yaml": GOOD.replace("pixel-6", "own.yaml"), "own.yaml": DEVICE})

    ended = command("validate", "good.yaml")

    assert (ended.code, ended.err) == (0, "")


def test_every_fault_has_its_line(command):
    write({"bad.yaml": GOOD.replace("cohort: 3", "cohort: 0").replace("rounds: 2", "rounds: 0")})

    ended = command("validate", "bad.yaml")

    assert ended.code == 2
    assert [line.split(" = ")[0] for line in ended.err.splitlines()] == [
        "error: bad.yaml:19: server.cohort",
        "error: bad.yaml:24: stop.rounds",
    ]


LEARNING = {
    "split that never comes out": bad(
        "kind: iid", "kind: dirichlet, alpha: 0.001, min_samples: 150",
        "task.partition.min_samples", "lower it", "task.partition.alpha above 0.001"),
    "images too small for the model": bad(
        "kind: logistic", "kind: lenet5", "task.model.kind", "12x12", "(1, 8, 8)", "2nn"),
    "model too large for any memory": bad(
        "kind: logistic", "kind: 2nn, hidden: [1000000, 1000000]", "task.model.kind",
        "at most 1e+09"),
    "fleet too large for any memory": bad(
        "kind: digits", "kind: blank", "fleet.size", "not enough memory", words=("--no-train",)),
    "choice by losses that nobody has": bad(
        "kind: random", "kind: oort", "server.selector.kind", "another selector",
        words=("--no-train",)),
    "training on nothing": bad("kind: digits", "kind: blank", "task.dataset.kind", "--no-train"),
    "graphics card that is not there": bad(
        "seed: 1", "seed: 2", "--torch-device", "cuda", "use --torch-device cpu",
        words=("--torch-device", "cuda")),
    "data that is not there": bad(
        "kind: digits", "kind: mnist", "mnist", "cache", "fleetsim data fetch mnist",
        "FLEETSIM_DATA"),
}  # fmt: skip


@pytest.mark.parametrize("fault", LEARNING.values(), ids=LEARNING)
def test_a_learning_task_that_cannot_be_is_refused_before_anything_is_written(
    fault, refused, monkeypatch, tmp_path_factory
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    if "not enough memory" in fault.parts:
        monkeypatch.setattr("fleetsim.training.task_samples.blank_sizes", no_memory)

    line = refused("run", scenario(fault), "--out", "run", *fault.words)

    for part in fault.parts:
        assert part in line


def no_memory(*_: object, **__: object) -> None:
    raise MemoryError("Unable to allocate 7.28 TiB for an array")
