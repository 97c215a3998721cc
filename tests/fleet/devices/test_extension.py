import re
from pathlib import Path
from typing import Any

import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.devices.profile import DeviceProfile, load_device
from fleetsim.schema import strict_yaml
from tests.fleet.devices.test_profile import DEVICE, figure


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.yaml"
    path.write_text(strict_yaml.dump(DEVICE))
    return path


def extended(base: Path, **own: Any) -> DeviceProfile:
    path = base.parent / "mine.yaml"
    path.write_text(strict_yaml.dump({"extends": base.name, **own}))
    return load_device(str(path))


def test_what_a_variant_says_stands_and_the_rest_is_the_other_files(base: Path) -> None:
    mine, its = (
        extended(base, title="Mine", power={"train_above_idle_w": figure(9)}),
        load_device(str(base)),
    )

    assert (mine.name, mine.title) == ("mine", "Mine")
    assert mine.power.train_above_idle_w == 9.0
    assert mine.power.idle_awake_w == its.power.idle_awake_w
    assert (mine.compute, mine.wifi, mine.battery_j) == (its.compute, its.wifi, its.battery_j)
    assert extended(base, battery=None).battery_j is None


def test_a_figure_is_replaced_whole_so_that_no_value_stands_beside_anothers_source(base):
    with pytest.raises(DataError, match=r"mine\.yaml:\d+: power\.idle_awake_w\.source: "):
        extended(base, power={"idle_awake_w": {"value": 0.5}})


def test_a_mark_is_taken_over_with_its_figure_and_goes_with_it(base: Path) -> None:
    marked = {**DEVICE, "ram_gib": {**figure(2), "inferred": True}}
    base.write_text(strict_yaml.dump(marked))

    assert extended(base).inferred == ("compute.clock_share", "ram_gib")
    assert extended(base, ram_gib=figure(4)).inferred == ("compute.clock_share",)


def test_a_fault_is_said_where_it_stands_in_either_file(base: Path) -> None:
    with pytest.raises(DataError, match=r"mine\.yaml:\d+: compute\.backend = 'tpu'"):
        extended(base, compute={"backend": "tpu"})
    base.write_text(strict_yaml.dump({**DEVICE, "kind": "laptop"}))
    with pytest.raises(DataError, match=r"base\.yaml:2: kind = 'laptop'"):
        extended(base, compute={"backend": "gpu"})


def test_extending_goes_one_level_deep(base: Path) -> None:
    base.write_text(strict_yaml.dump({"extends": "pixel-6"}))

    message = r"mine\.yaml:1: extends = 'base\.yaml': .*base\.yaml extends 'pixel-6' itself; extend"
    with pytest.raises(DataError, match=message):
        extended(base)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pixel6", "no such bundled device or path; did you mean 'pixel-6'?"),
        ("toaster", "no such bundled device or path; bundled are galaxy-note-10,"),
        ("", "must be the name of a bundled device or the path of a file"),
        (7, "must be the name of a bundled device or the path of a file"),
    ],
)
def test_a_device_that_is_not_there_cannot_be_extended(tmp_path, name, says):
    path = tmp_path / "mine.yaml"
    path.write_text(strict_yaml.dump({"extends": name}))

    with pytest.raises(DataError, match=rf"mine\.yaml:1: extends = .*{re.escape(says)}"):
        load_device(str(path))


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
def test_a_power_mode_is_slower_by_cores_and_clock_and_thriftier_by_the_clocks_square(
    variant, of, budget_w, rate, power
):
    mode, full = load_device(variant), load_device(of)

    assert mode.compute.conv_flop_per_s / full.compute.conv_flop_per_s == pytest.approx(rate, 1e-3)
    ratio = mode.power.train_above_idle_w / full.power.train_above_idle_w
    assert ratio == pytest.approx(power, rel=0.01)
    assert mode.power.idle_awake_w + mode.power.train_above_idle_w < budget_w
    assert {"compute.conv_gflop_per_s", "power.train_above_idle_w"} <= set(mode.inferred)
