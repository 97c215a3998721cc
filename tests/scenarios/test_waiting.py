"""Effect of charging clients for waiting, in the tables and between servers."""

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run

CHANGES = {
    "quickstart": ("stop.rounds=5", "server.deadline_s=null", "server.over_commit=1.0"),
    "quickstart-fedbuff": ("stop.rounds=5",),
}


def test_a_synchronous_fleet_pays_for_waiting_and_a_buffered_one_does_not(tmp_path):
    """Forty answers each."""
    runs = {
        (name, idle): run(
            load(name, [f"energy.idle={idle}", *changes]),
            out=tmp_path / f"{name}-{idle}",
            train=False,
            workers=1,
        )
        for name, changes in CHANGES.items()
        for idle in ("charged", "not_charged")
    }
    spent_j = {key: done.rounds["energy_total_j"].iloc[-1] for key, done in runs.items()}
    free_j = spent_j["quickstart", "not_charged"]
    waiting_j = spent_j["quickstart", "charged"] - free_j

    assert {done.rounds["num_delivered"].sum() for done in runs.values()} == {40}
    assert len({done.manifest.world_hash for done in runs.values()}) == 2
    by_component = runs["quickstart", "charged"].energy_by("component")
    assert waiting_j == pytest.approx(by_component["enlisted_idle"])
    assert waiting_j > 0.05 * free_j
    buffered_j = [spent_j["quickstart-fedbuff", idle] for idle in ("charged", "not_charged")]
    assert buffered_j[0] == buffered_j[1]
