"""Effect of charging clients for waiting, in the tables and between servers."""

import pytest

from fleetsim.record.saved_run import Run
from fleetsim.scenario import load
from fleetsim.simulate import run

ANSWERS = 40
CHANGES = {
    "quickstart": ("stop.rounds=5", "server.deadline_s=null", "server.over_commit=1.0"),
    "quickstart-fedbuff": ("stop.rounds=5",),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[tuple[str, str], Run]:
    home = tmp_path_factory.mktemp("runs")
    return {
        (name, idle): run(
            load(name, [f"energy.idle={idle}", *changes]),
            out=home / f"{name}-{idle}",
            train=False,
            workers=1,
        )
        for name, changes in CHANGES.items()
        for idle in ("charged", "not_charged")
    }


def test_waiting_is_charged_unless_a_scenario_says_otherwise_which_is_another_world():
    usual, free = load("quickstart"), load("quickstart", ["energy.idle=not_charged"])

    assert usual.energy.idle == "charged"
    assert usual.world_hash != free.world_hash


def test_a_synchronous_fleet_pays_for_waiting_and_a_buffered_one_does_not(runs):
    def spent_j(name: str, idle: str) -> float:
        assert runs[name, idle].rounds["num_delivered"].sum() == ANSWERS
        return float(runs[name, idle].rounds["energy_total_j"].iloc[-1])

    waiting_j = spent_j("quickstart", "charged") - spent_j("quickstart", "not_charged")
    by_component = runs["quickstart", "charged"].energy_by("component")
    assert waiting_j == pytest.approx(by_component["enlisted_idle"])
    assert waiting_j > 0.05 * spent_j("quickstart", "not_charged")
    buffered = spent_j("quickstart-fedbuff", "charged")
    assert buffered == spent_j("quickstart-fedbuff", "not_charged")
