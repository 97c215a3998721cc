"""Tests of the device and radio files of a scenario, each read once a run."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fleetsim import bundled
from fleetsim.fleet.devices.profile import load_device
from fleetsim.host import paths
from fleetsim.scenario import load
from fleetsim.simulate import run

DEVICES = {
    "jetson-tx2": 0.2,
    "jetson-tx2-max-q": 0.2,
    "market": 0.2,
    "pixel-6": 0.2,
    "t2.small": 0.2,
}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """Number of times that each device or radio file is opened from now on."""
    counts: Counter[Path] = Counter()
    homes = [bundled.folder("devices"), bundled.folder("radios")]
    real = paths.opened

    def counting(path: Path, *args: Any, **options: Any) -> Any:
        if path.parent in homes:
            counts[path] += 1
        return real(path, *args, **options)

    monkeypatch.setattr(paths, "opened", counting)
    return counts


def test_a_run_opens_each_device_and_radio_file_once(tmp_path: Path, opened: Counter[Path]) -> None:
    devices = ", ".join(f"{name}: {share}" for name, share in DEVICES.items())
    changes = [f"fleet.devices={{{devices}}}", "fleet.usage={trace: null}", "stop.rounds=1"]
    scenario = load("quickstart", changes)
    run(scenario, out=tmp_path / "run", train=False)

    assert {path.stem for path in opened} >= set(DEVICES) - {"market"} | {"wifi", "lte", "wired"}
    assert set(opened.values()) == {1}


def test_a_scenario_that_is_loaded_later_has_a_file_as_it_is_then(tmp_path: Path) -> None:
    mine, scenario = tmp_path / "mine.yaml", tmp_path / "scenario.yaml"
    text = (bundled.folder("scenarios") / "quickstart.yaml").read_text()
    scenario.write_text(text.replace("pixel-6:", "mine.yaml:"))
    titles = []
    for title in ("first", "second"):
        mine.write_text(f"extends: pixel-6\ntitle: {title}\n")
        loaded = load(scenario)
        (name, *_) = loaded.fleet.devices
        titles.append(load_device(name, files=loaded.files).title)

    assert titles == ["first", "second"]
