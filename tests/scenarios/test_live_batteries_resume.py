"""Resumed runs with live batteries: the same bytes after an interrupt, in both modes."""

from __future__ import annotations

import pytest

from fleetsim.contracts import Progress
from fleetsim.scenario import load
from fleetsim.simulate import run

DESERT = ["fleet.size=16", "server.cohort=4", "stop.rounds=30", "checkpoint.every_rounds=3"]
BUFFERED = [
    "fleet.size=12",
    "fleet.usage={trace: people-week, starts_at_s: 25200}",
    "fleet.battery={capacity_wh: 0.5, charge_w: 2.5, charging: {kind: cc-cv}, everyday: {},"
    " discharging: {kind: resistive}}",
    "task.local.epochs=40",
    "task.partition.min_samples=2",
    "server.concurrency=4",
    "server.buffer_size=2",
    "stop.rounds=40",
    "checkpoint.every_rounds=3",
]


@pytest.mark.parametrize(
    ("name", "changes"), [("battery-desert", DESERT), ("quickstart-fedbuff", BUFFERED)]
)
def test_an_interrupted_run_goes_on_to_the_same_bytes(name, changes, tmp_path):
    scenario = load(name, changes)

    def interrupt(progress: Progress) -> None:
        if progress.round == 17:
            raise KeyboardInterrupt

    whole = run(scenario, out=tmp_path / "whole", train=False)
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=tmp_path / "cut", train=False, on_progress=interrupt)
    resumed = run(scenario, out=tmp_path / "cut", train=False, resume=True)

    assert whole.manifest.digest == resumed.manifest.digest
    assert whole.rounds["battery_median_fraction"].nunique() > 10
