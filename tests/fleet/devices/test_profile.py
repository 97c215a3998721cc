import copy
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import (
    AmplifierProfile,
    DeviceProfile,
    device_names,
    load_device,
    load_radio,
    wifi_radio,
)
from fleetsim.fleet.devices.thermal import SkinProfile
from fleetsim.scenario import load
from fleetsim.schema import strict_yaml


def figure(value: float) -> dict[str, Any]:
    return {"value": value, "source": "bench of my own, 2024-05-01"}


DEVICE: dict[str, Any] = {
    "title": "My phone",
    "kind": "phone",
    "compute": {
        "backend": "cpu",
        "conv_gflop_per_s": figure(10),
        "peak_gflop_per_s": figure(40),
        "dispatch_s": figure(0.01),
        "layer_s": figure(0.002),
        "parameter_s_per_mparam": figure(0.5),
        "phi": {key: figure(0.5) for key in ("depthwise", "gemm", "rnn")},
    },
    "power": {"idle_awake_w": figure(0.25), "train_above_idle_w": figure(3)},
    "wifi": {"receive_w": figure(0.5), "transmit_w": figure(1.5)},
    "battery": {"capacity_mah": figure(1000), "nominal_v": figure(4)},
    "ram_gib": figure(2),
}
RADIO: dict[str, Any] = {
    "title": "My radio",
    "power_from": "radio",
    "receive": {"base_w": figure(0.5), "slope_mw_per_mbit_per_s": figure(10)},
    "transmit": {"base_w": figure(1), "slope_mw_per_mbit_per_s": figure(20)},
    "tail_w": figure(0.1),
    "tail_s": figure(3),
}


def changed(data: dict[str, Any], keys: str, value: Any = None) -> dict[str, Any]:
    """A copy with another value at a dotted key; without the key if the value is None."""
    data = copy.deepcopy(data)
    *parents, last = keys.split(".")
    spot = data
    for key in parents:
        spot = spot[key]
    if value is None:
        del spot[last]
    else:
        spot[last] = value
    return data


Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(data: dict[str, Any] | str, name: str = "mine.yaml") -> str:
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else strict_yaml.dump(data))
        return str(path)

    return write


@pytest.mark.parametrize("name", device_names())
def test_every_bundled_device_trains_below_its_peak_and_has_the_parts_of_its_kind(name):
    device = load_device(name)

    assert device.name == name
    assert device.compute.peak_flop_per_s is not None
    assert device.compute.conv_flop_per_s < device.compute.peak_flop_per_s
    assert (device.battery_j is not None) == (device.kind == "phone")
    assert (device.wired_bit_per_s is not None) == (device.kind == "vm")


def test_wifi_draws_the_devices_own_watts_for_the_share_of_time_on_the_air():
    radio = wifi_radio(load_device("redmi-note-10"))  # 0.703 W either way

    assert (radio.receive_w, radio.transmit_w) == (0.13286, 0.13286)
    full_w = radio.transmit_w + radio.transmit_j_per_bit * 63e6
    half_w = radio.receive_w + radio.receive_j_per_bit * 31.5e6
    assert full_w == pytest.approx(0.703)
    assert half_w == pytest.approx((0.703 + 0.13286) / 2)
    assert radio.tail_w * radio.tail_s == pytest.approx(0.04, rel=1e-4)  # joules of one packet


def test_wifi_faster_than_the_files_full_rate_draws_the_devices_watts_at_its_fastest():
    radio = wifi_radio(load_device("pixel-6"), top_bit_per_s=200e6)

    assert radio.transmit_w + radio.transmit_j_per_bit * 200e6 == pytest.approx(1.739)
    assert wifi_radio(load_device("pixel-6"), top_bit_per_s=1e6) == wifi_radio(
        load_device("pixel-6")
    )


@pytest.mark.parametrize(("name", "bits", "code_rate"), [("lte", 6, 948), ("nr-low", 8, 948)])
def test_the_fastest_modulation_carries_its_bits_times_its_code_rate(name, bits, code_rate):
    assert load_radio(name).max_bit_per_s_per_hz == pytest.approx(bits * code_rate / 1024, abs=5e-5)


def test_figures_become_si(write):
    device = load_device(write(DEVICE))

    assert (device.name, device.compute.conv_flop_per_s) == ("mine", 10e9)
    assert (device.compute.peak_flop_per_s, device.compute.parameter_s) == (40e9, 0.5e-6)
    assert device.compute.phi == {"conv": 1, "depthwise": 0.5, "gemm": 0.5, "rnn": 0.5}
    assert device.compute.layer_s == 0.002
    assert device.battery_j == pytest.approx(3600 * 4)
    assert device.ram_byte == 2 * 1024**3
    assert device.inferred == ("compute.clock_share",)


AMPLIFIER = {"max_dbm": figure(26), "efficiency": figure(0.25), "full_mbit_per_s": figure(50)}


def test_radio_figures_become_si(write):
    limits = {
        "network": "wifi",
        "rtt_s": figure(0.02),
        "max_bit_per_s_per_hz": figure(5),
        "max_down_mbit_per_s": figure(100),
        "max_up_mbit_per_s": figure(40),
        "amplifier": AMPLIFIER,
    }
    plain, limited = load_radio(write(RADIO)), load_radio(write({**RADIO, **limits}))

    assert (plain.receive_w, plain.receive_j_per_bit) == (0.5, 1e-8)
    assert (plain.transmit_w, plain.transmit_j_per_bit) == (1.0, 2e-8)
    assert (plain.tail_w, plain.tail_s) == (0.1, 3.0)
    assert (plain.network, plain.rtt_s, plain.amplifier) == ("cellular", 0.0, None)
    assert plain.max_bit_per_s_per_hz == plain.max_up_bit_per_s == math.inf
    assert (limited.network, limited.rtt_s, limited.max_bit_per_s_per_hz) == ("wifi", 0.02, 5.0)
    assert (limited.max_down_bit_per_s, limited.max_up_bit_per_s) == (100e6, 40e6)
    assert limited.amplifier == AmplifierProfile(26.0, 0.25, 50e6)


def test_a_radio_with_the_devices_watts_and_no_duty_cycle_draws_them_at_any_rate(write):
    plain = {"title": "Plain", "power_from": "device", "tail_w": figure(0.1), "tail_s": figure(1)}
    radio = wifi_radio(load_device("pixel-6"), write(plain))

    assert (radio.network, radio.receive_w, radio.transmit_w) == ("wifi", 0.363, 1.739)
    assert (radio.receive_j_per_bit, radio.transmit_j_per_bit) == (0.0, 0.0)


def test_a_relative_path_counts_from_the_file_that_names_it(write, tmp_path):
    write(DEVICE)
    write(RADIO, "radio.yaml")

    assert load_device("mine.yaml", files=HardwareFiles(tmp_path)).title == "My phone"
    assert load_radio("radio.yaml", files=HardwareFiles(tmp_path)).tail_s == 3.0


CREDITS = {
    key: figure(value)
    for key, value in (("per_hour", 36), ("maximum", 864), ("num_vcpus", 2), ("launch", 0))
}
THERMAL = {
    "threshold_c": {"values": [35, 40.5], "source": "its configuration"},
    "clock_fraction": {"values": [0.8, 0.5], "source": "its configuration", "inferred": True},
}
INSTANCE = {**changed(DEVICE, "battery"), "kind": "vm", "credits": CREDITS}
ONE_CORE = {"core": "big", "count": 1, "clock_ghz": 2.0, "flop_per_cycle": 8.0}
WIFI = dict(strict_yaml.read(bundled.folder("radios") / "wifi.yaml").data)
FILES: dict[str, tuple[dict[str, Any], Callable[[str], Any]]] = {
    "device": (DEVICE, load_device),
    "hot phone": ({**DEVICE, "thermal": THERMAL}, load_device),
    "instance": (INSTANCE, load_device),
    "radio": (RADIO, load_radio),
    "sleeping radio": ({**RADIO, "drx": {"inactivity_s": figure(0.1)}}, load_radio),
    "wifi": (WIFI, lambda path: wifi_radio(load_device("pixel-6"), path)),
}


@pytest.mark.parametrize(
    ("kind", "key", "value", "message"),
    [
        ("device", "power", None, "power"),
        ("device", "wifi", None, ".*neither wifi nor wired"),
        ("device", "wired", {"bit_per_s": figure(1e8)}, "wired.*wifi already"),
        ("device", "compute.conv_gflop_per_s.value", 0.0, ""),
        ("device", "power.idle_awake_w.value", float("nan"), ""),
        ("device", "power.train_above_idle_w", 3.0, ""),
        ("device", "power.train_above_idle_w.source", None, ""),
        ("device", "power.train_above_idle_w.source", " ", ""),
        # 16 GFLOP/s of the core, where the file's peak is 40.
        ("device", "compute.cores", [ONE_CORE], r"compute\.peak_gflop_per_s\.value"),
        ("hot phone", "thermal.threshold_c.values", [40, 40], ".*must rise"),
        ("hot phone", "thermal.threshold_c.values", [40], r".*as many as threshold_c \(1\), got 2"),
        ("hot phone", "thermal.clock_fraction.values", [1.0, 0.5], ".*begin below 1 and fall"),
        ("hot phone", "thermal.clock_fraction.values", [0.5, 0.5], ".*begin below 1 and fall"),
        ("hot phone", "credits", CREDITS, ".*for devices of kind vm"),
        ("hot phone", "kind", "vm", ".*a vm has no skin"),
        ("instance", "credits.num_vcpus", figure(0.5), r"credits\.num_vcpus\.value"),
        ("radio", "receive", None, ""),
        ("radio", "power_from", "device", "receive"),
        ("radio", "connected_w", figure(0.1), ""),
        ("radio", "full_mbit_per_s", figure(50), ""),
        ("sleeping radio", "tail_w", figure(0.6), r"receive\.base_w.*below tail_w = 0\.6.*drx out"),
        ("wifi", "connected_w", None, ""),
        ("wifi", "full_mbit_per_s", None, "connected_w"),
        ("wifi", "amplifier", AMPLIFIER, ""),
    ],
)
def test_a_wrong_value_is_one_line_that_names_file_and_key(write, kind, key, value, message):
    data, load = FILES[kind]
    line = r"(:\d+)?" if kind == "wifi" else r":\d+"
    with pytest.raises(DataError, match=rf"mine\.yaml{line}: {message or re.escape(key)}") as fault:
        load(write(changed(data, key, value)))

    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (load_device, "pixel6", "device 'pixel6': .*did you mean 'pixel-6'"),
        (load_device, "toaster", "device 'toaster': no such .* path; bundled are galaxy"),
        (load_radio, "nr-lo", "radio 'nr-lo': .*did you mean 'nr-low'"),
        (load_radio, "wifi", r"wifi\.yaml: .*unmetered networks only.*'lte'"),
        (lambda name: wifi_radio(load_device(name)), "t2.small", "device 't2.small' has none"),
    ],
)
def test_a_name_that_cannot_serve_is_refused_with_one_that_can(load, name, message):
    with pytest.raises(DataError, match=message):
        load(name)


def example(begins: str) -> str:
    """The YAML of the pages on devices that begins so."""
    docs = Path(__file__).resolve().parents[3] / "docs"
    pages = "".join((docs / f"{name}.md").read_text() for name in ("devices", "device-speeds"))
    match = re.search(rf"```yaml\n({begins}.*?)```", pages, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_examples_in_the_docs_load(write):
    ours, pixel = load_device(write(example("extends: "))), load_device("pixel-6")
    skin = load_device(write(strict_yaml.dump(DEVICE) + example("thermal:"))).skin

    assert load_device(write(example("title: "))).kind == "board"
    assert ours.power.train_above_idle_w == 5.2
    assert ours.battery_j == pytest.approx(4100 * 3.6 * 3.85)
    assert ours.compute == pixel.compute
    assert ours.title == "Pixel 6 of our laboratory"
    assert skin is not None
    assert skin.clock_fraction == (0.8, 0.5)


def test_credits_and_heat_are_read_as_they_stand(write):
    credits = load_device(write(INSTANCE)).credits
    assert credits is not None
    assert (credits.num_vcpus, credits.maximum, credits.launch) == (2, 864, 0)
    assert credits.baseline_fraction == pytest.approx(0.3)

    thermal = {**THERMAL, "time_constant_s": figure(200)}
    phone = load_device(write({**DEVICE, "thermal": thermal}))
    assert phone.skin == SkinProfile((35.0, 40.5), (0.8, 0.5), None, 200.0)
    assert phone.inferred == ("compute.clock_share", "thermal.clock_fraction")


def test_a_scenario_that_is_loaded_later_has_a_file_as_it_is_then(write):
    text = (bundled.folder("scenarios") / "quickstart.yaml").read_text()
    scenario = write(text.replace("pixel-6:", "mine.yaml:"), "scenario.yaml")
    titles = []
    for title in ("first", "second"):
        write({"extends": "pixel-6", "title": title})
        loaded = load(scenario)
        (name, *_) = loaded.fleet.devices
        titles.append(load_device(name, files=loaded.files).title)

    assert titles == ["first", "second"]


def extended(write: Write, base: dict[str, Any], **changes: Any) -> DeviceProfile:
    write(base, "base.yaml")
    return load_device(write({"extends": "base.yaml", **changes}))


def test_what_a_variant_says_stands_and_the_rest_is_the_other_files(write):
    mine = extended(write, DEVICE, title="Mine", power={"train_above_idle_w": figure(9)})
    other = load_device(write(DEVICE, "base.yaml"))

    assert (mine.name, mine.title) == ("mine", "Mine")
    assert mine.power.train_above_idle_w == 9.0
    assert mine.power.idle_awake_w == other.power.idle_awake_w
    assert (mine.compute, mine.wifi, mine.battery_j) == (other.compute, other.wifi, other.battery_j)
    assert extended(write, DEVICE, battery=None).battery_j is None


def test_a_mark_is_taken_over_with_its_figure_and_goes_with_it(write):
    marked = {**DEVICE, "ram_gib": {**figure(2), "inferred": True}}

    assert extended(write, marked).inferred == ("compute.clock_share", "ram_gib")
    assert extended(write, marked, ram_gib=figure(4)).inferred == ("compute.clock_share",)


VALUE_ALONE = {"idle_awake_w": {"value": 0.5}}


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        # A figure is replaced whole, so that no value stands beside another's source.
        (DEVICE, {"power": VALUE_ALONE}, r"mine.yaml:\d+: power.idle_awake_w.source: "),
        (DEVICE, {"compute": {"backend": "tpu"}}, r"mine.yaml:\d+: compute.backend = 'tpu'"),
        ({**DEVICE, "kind": "laptop"}, {"title": "Mine"}, "base.yaml:2: kind = 'laptop'"),
        ({"extends": "pixel-6"}, {}, "mine.yaml:1: extends = .*base.yaml extends 'pixel-6' itself"),
        (DEVICE, {"extends": "pixel6"}, "mine.yaml:1: extends = .*did you mean 'pixel-6'"),
        (DEVICE, {"extends": "toaster"}, "mine.yaml:1: extends = .*bundled are galaxy-note-10,"),
        (DEVICE, {"extends": ""}, "mine.yaml:1: extends = .*must be the name of a bundled device"),
        (DEVICE, {"extends": 7}, "mine.yaml:1: extends = .*must be the name of a bundled device"),
    ],
)
def test_a_fault_is_named_where_it_stands_in_either_file(write, base, changes, message):
    with pytest.raises(DataError, match=message):
        extended(write, base, **changes)


# Clocks in GHz over those of the extended file, from NVIDIA's tables of power modes.
@pytest.mark.parametrize(
    ("variant", "of", "budget_w", "rate", "power"),
    [
        # a CPU slows by its clock share only: 1 / (0.27 x 1479 / 918 + 0.73)
        ("jetson-nano-cpu-5w", "jetson-nano-cpu", 5.0, 2 / 4 / 1.165, 2 / 4 * (918 / 1479) ** 2),
        ("jetson-nano-gpu-5w", "jetson-nano-gpu", 5.0, 614.4 / 921.6, (614.4 / 921.6) ** 2),
        ("jetson-tx2-max-q", "jetson-tx2", 7.5, 0.85 / 1.30, (0.85 / 1.30) ** 2),
        ("jetson-tx2-max-p", "jetson-tx2", 15.0, 1.12 / 1.30, (1.12 / 1.30) ** 2),
        ("jetson-tx2-max-p-arm", "jetson-tx2", 15.0, 1.12 / 1.30, (1.12 / 1.30) ** 2),
    ],
)
def test_a_power_mode_is_slower_and_thriftier_by_its_clock(variant, of, budget_w, rate, power):
    mode, full = load_device(variant), load_device(of)

    assert mode.compute.conv_flop_per_s / full.compute.conv_flop_per_s == pytest.approx(rate, 1e-3)
    ratio = mode.power.train_above_idle_w / full.power.train_above_idle_w
    assert ratio == pytest.approx(power, rel=0.01)
    assert mode.power.idle_awake_w + mode.power.train_above_idle_w < budget_w
    assert {"compute.conv_gflop_per_s", "power.train_above_idle_w"} <= set(mode.inferred)
