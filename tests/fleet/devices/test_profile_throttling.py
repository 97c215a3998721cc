"""Sections on credits and heat in a device file."""

from pathlib import Path
from typing import Any

import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.devices.profile import DeviceProfile, load_device
from fleetsim.fleet.devices.thermal import SkinProfile
from fleetsim.schema import strict_yaml
from tests.fleet.devices.test_device_pages import example
from tests.fleet.devices.test_profile import DEVICE, changed, figure

FIGURES = {"per_hour": 36, "maximum": 864, "num_vcpus": 2, "launch": 0}
CREDITS = {key: figure(value) for key, value in FIGURES.items()}
INSTANCE = {**changed(DEVICE, "battery"), "kind": "vm", "credits": CREDITS}
THERMAL = {
    "threshold_c": {"values": [35, 40.5], "source": "its configuration"},
    "clock_fraction": {"values": [0.8, 0.5], "source": "its configuration", "inferred": True},
}


def loaded(folder: Path, data: dict[str, Any]) -> DeviceProfile:
    path = folder / "mine.yaml"
    path.write_text(strict_yaml.dump(data))
    return load_device(str(path))


def test_credits_and_heat_are_read_as_they_stand(tmp_path: Path) -> None:
    credits = loaded(tmp_path, INSTANCE).credits
    assert credits is not None
    assert (credits.num_vcpus, credits.maximum, credits.launch) == (2, 864, 0)
    assert credits.baseline_fraction == pytest.approx(0.3)

    phone = loaded(tmp_path, {**DEVICE, "thermal": {**THERMAL, "time_constant_s": figure(200)}})
    assert phone.skin == SkinProfile((35.0, 40.5), (0.8, 0.5), None, 200.0)
    assert phone.inferred == ("compute.clock_share", "thermal.clock_fraction")


def test_the_thermal_section_in_the_docs_loads(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(strict_yaml.dump(DEVICE) + example("thermal:"))

    skin = load_device(str(tmp_path / "mine.yaml")).skin
    assert skin is not None
    assert skin.clock_fraction == (0.8, 0.5)


PHONE = {**DEVICE, "thermal": THERMAL}


@pytest.mark.parametrize(
    ("data", "key", "value", "says"),
    [
        (PHONE, "thermal.threshold_c.values", [40, 40], "must rise"),
        (PHONE, "thermal.threshold_c.values", [40], r"as many as threshold_c \(1\), got 2"),
        (PHONE, "thermal.clock_fraction.values", [1.0, 0.5], "begin below 1 and fall"),
        (PHONE, "thermal.clock_fraction.values", [0.5, 0.5], "begin below 1 and fall"),
        (PHONE, "credits", CREDITS, "for devices of kind vm"),
        (PHONE, "kind", "vm", "a vm has no skin"),
        (INSTANCE, "credits.num_vcpus", figure(0.5), r"credits\.num_vcpus\.value"),
    ],
)
def test_a_wrong_section_is_one_line_that_says_what_is_wrong(tmp_path, data, key, value, says):
    with pytest.raises(DataError, match=says) as fault:
        loaded(tmp_path, changed(data, key, value))

    assert "\n" not in str(fault.value)
