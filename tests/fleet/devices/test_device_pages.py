"""docs/devices.md and `fleetsim list devices` against the device files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fleetsim import bundled
from fleetsim.catalogue import listing
from fleetsim.cli import app
from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.fleet.devices import market
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.extension import read_device
from fleetsim.fleet.devices.profile import DeviceProfile, device_names, load_device

DOCS = Path(__file__).resolve().parents[3] / "docs" / "devices.md"
RESNET18 = ModelCost({"conv": 1.1108e9}, 11_170_000, 44_700_000, num_layers=21)


def cell(data: dict[str, Any], keys: str) -> str:
    """A figure as the file has it, with a star if it is inferred."""
    spot = data
    for key in keys.split("."):
        spot = spot[key]
    return f"{spot['value']:g}{'*' if spot.get('inferred', False) else ''}"


def table(head: str, rows: list[list[str]]) -> str:
    lines = [head.split("|"), ["---"] * len(head.split("|")), *rows]
    return "\n".join("| " + " | ".join(part.strip() for part in line) + " |" for line in lines)


def resnet18_round(device: DeviceProfile) -> tuple[float, float]:
    train, samples = Work(WorkKind.TRAIN, epochs=5), np.array([500])
    work_s = unloaded_s(device.compute, RESNET18, train, num_samples=samples, batch_size=32)
    return float(work_s[0]), float(work_s[0]) * device.power.train_above_idle_w


def devices_table() -> str:
    """The table of what devices are and do, from the files."""
    rows = []
    for name in device_names():
        data = read_device(bundled.folder("devices") / f"{name}.yaml").data
        device = load_device(name)
        seconds, joules = resnet18_round(device)
        if device.wired is None:
            link = f"{cell(data, 'wifi.receive_w')} / {cell(data, 'wifi.transmit_w')} W"
        else:
            figure = data["wired"]["bit_per_s"]
            data["wired"]["mbit_per_s"] = {**figure, "value": figure["value"] / 1e6}
            link = f"{cell(data, 'wired.mbit_per_s')} Mbit/s"
        rows.append(
            [
                f"`{name}`",
                device.compute.backend,
                cell(data, "compute.conv_gflop_per_s"),
                cell(data, "compute.dispatch_s"),
                cell(data, "compute.layer_s"),
                cell(data, "compute.parameter_s_per_mparam"),
                cell(data, "power.train_above_idle_w"),
                cell(data, "power.idle_awake_w"),
                link,
                cell(data, "ram_gib"),
                "mains"
                if device.battery_j is None
                else f"{cell(data, 'battery.capacity_mah')}, {device.battery_j / 3600:.1f}",
                f"{len(device.inferred)} of {device.num_figures}",
                f"{seconds:.0f}",
                f"{joules:.0f}",
            ]
        )
    head = (
        "device | on | R | t_d | k_l | k_p | training W | idle W | receive / transmit, or cable"
        " | RAM GiB | battery mAh, Wh | inferred | round s | J"
    )
    return table(head, rows)


def test_the_table_in_the_docs_says_what_the_devices_say() -> None:
    made = devices_table()

    assert made in DOCS.read_text(), f"write this table into docs/devices.md:\n{made}"


def test_the_market_in_the_docs_is_the_one_that_is_drawn_from() -> None:
    shares = " | ".join("0" if share == 0 else f"{share * 100:g} %" for share in market.SHARES)
    latencies = " | ".join(f"{latency:g}" for latency in market.LATENCIES_MS)

    assert f"| {shares} |" in DOCS.read_text()
    assert f"| {latencies} |" in DOCS.read_text()


def example(begins: str) -> str:
    """The YAML of the page that begins so."""
    found = re.search(rf"```yaml\n({begins}.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_device_in_the_docs_loads(tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(example("title: "))

    assert load_device("example.yaml", beside=tmp_path).kind == "board"


def test_the_extension_in_the_docs_loads(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(example("extends: "))
    ours, pixel = load_device("ours.yaml", beside=tmp_path), load_device("pixel-6")

    assert ours.power.train_above_idle_w == 5.2
    assert ours.battery_j == pytest.approx(4100 * 3.6 * 3.85)
    assert ours.compute == pixel.compute
    assert ours.title == "Pixel 6 of our laboratory"


@pytest.mark.slow
def test_the_list_of_devices_fits_a_hundred_columns() -> None:
    lines = CliRunner().invoke(app, ["list", "devices"]).stdout.split("\n\n")[0].splitlines()

    assert len(lines) == 1 + len(device_names())
    assert max(len(line.rstrip()) for line in lines) <= 100


def test_the_list_says_speed_power_memory_battery_and_how_much_is_inferred() -> None:
    shown = {row[0]: [cell.strip() for cell in row] for row in listing("devices").rows}

    # 4614 mAh at 3.85 V are 17.8 Wh; rates, phi, overheads, the peak, training watts, volts
    assert shown["pixel-6"] == [
        *["pixel-6", "phone", "cpu", "42.9", "4.43", "0.15", "8", "17.8", "11 of 16"]
    ]
    assert shown["jetson-tx2-max-q"][3:8] == ["116.5", "4.28", "2.00", "8", "mains"]
