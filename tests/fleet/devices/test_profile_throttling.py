"""Sections on credits and heat in a device file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.devices.profile import DeviceProfile, load_device
from fleetsim.schema import strict_yaml
from tests.fleet.devices.test_device_pages import DOCS
from tests.fleet.devices.test_profile import DEVICE, changed, figure

CREDITS = {key: figure(value) for key, value in [("per_hour", 36), ("maximum", 864)]} | {
    "num_vcpus": figure(2),
    "launch": figure(0),
}
THERMAL = {
    "threshold_c": {"values": [35, 40.5], "source": "its configuration"},
    "clock_fraction": {"values": [0.8, 0.5], "source": "its configuration", "inferred": True},
}


def loaded(folder: Path, data: dict[str, Any]) -> DeviceProfile:
    path = folder / "mine.yaml"
    path.write_text(strict_yaml.dump(data))
    return load_device(str(path))


def test_credits_and_heat_are_read_as_they_stand(tmp_path: Path) -> None:
    instance = loaded(tmp_path, {**changed(DEVICE, "battery"), "kind": "vm", "credits": CREDITS})
    assert instance.credits is not None
    assert (instance.credits.num_vcpus, instance.credits.maximum, instance.credits.launch) == (
        2,
        864,
        0,
    )
    assert instance.credits.baseline_fraction == pytest.approx(0.3)

    phone = loaded(tmp_path, {**DEVICE, "thermal": {**THERMAL, "time_constant_s": figure(200)}})
    assert phone.skin is not None
    assert phone.skin.threshold_c == (35.0, 40.5)
    assert phone.skin.clock_fraction == (0.8, 0.5)
    assert (phone.skin.time_constant_s, phone.skin.resistance_k_per_w) == (200.0, None)
    assert phone.inferred == ("compute.clock_share", "thermal.clock_fraction")


def test_the_thermal_section_in_the_docs_loads(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(thermal:.*?)```", DOCS.read_text(), re.DOTALL)
    assert example is not None
    text = strict_yaml.dump(DEVICE) + example[1]
    (tmp_path / "mine.yaml").write_text(text)

    skin = load_device(str(tmp_path / "mine.yaml")).skin
    assert skin is not None
    assert skin.clock_fraction == (0.8, 0.5)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("thermal.threshold_c.values", [40, 40], "must rise"),
        ("thermal.threshold_c.values", [40], r"as many as threshold_c \(1\), got 2"),
        ("thermal.threshold_c.values", [], "threshold_c.values"),
        ("thermal.clock_fraction.values", [1.0, 0.5], "begin below 1 and fall"),
        ("thermal.clock_fraction.values", [0.5, 0.5], "begin below 1 and fall"),
        ("thermal.clock_fraction.values", [0.5, 0.0], "clock_fraction.values"),
        ("thermal.threshold_c.source", None, "source"),
        ("thermal.resistance_k_per_w", figure(0), "resistance_k_per_w"),
        ("credits", CREDITS, "for devices of kind vm"),
        ("kind", "vm", "a vm has no skin"),
    ],
)
def test_a_wrong_section_is_one_line_that_says_what_is_wrong(tmp_path, key, value, says):
    with pytest.raises(DataError, match=says) as fault:
        loaded(tmp_path, changed({**DEVICE, "thermal": THERMAL}, key, value))

    assert "\n" not in str(fault.value)


def test_half_a_vcpu_is_refused(tmp_path: Path) -> None:
    half = {**CREDITS, "num_vcpus": figure(0.5)}
    with pytest.raises(DataError, match=r"credits\.num_vcpus\.value"):
        loaded(tmp_path, {**changed(DEVICE, "battery"), "kind": "vm", "credits": half})
