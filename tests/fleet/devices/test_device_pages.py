"""Examples of docs/devices.md, and `fleetsim list devices`."""

import re
from pathlib import Path

import pytest

from fleetsim.catalogue import listing
from fleetsim.fleet.devices.profile import load_device

DOCS = Path(__file__).resolve().parents[3] / "docs" / "devices.md"


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


def test_the_list_says_speed_power_memory_battery_and_how_much_is_inferred() -> None:
    shown = {row[0]: [cell.strip() for cell in row] for row in listing("devices").rows}

    # 4614 mAh at 3.85 V are 17.8 Wh; rates, phi, overheads, the peak, training watts, volts
    assert shown["pixel-6"] == [
        *["pixel-6", "phone", "cpu", "42.9", "4.43", "0.15", "8", "17.8", "11 of 16"]
    ]
    assert shown["jetson-tx2-max-q"][3:8] == ["116.5", "4.28", "2.00", "8", "mains"]
