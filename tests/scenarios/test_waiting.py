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
COLUMN = "energy_enlisted_idle_j"


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


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_the_column_is_there_where_waiting_is_charged(runs, name):
    charged, free = (runs[name, idle] for idle in ("charged", "not_charged"))

    for table in ("rounds", "tasks", "clients"):
        assert COLUMN in getattr(charged, table).columns
        assert COLUMN not in getattr(free, table).columns
    assert free.tasks.equals(charged.tasks.drop(columns=COLUMN))


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


def test_what_clients_wait_for_is_the_slowest_of_their_round(runs):
    made = runs["quickstart", "charged"]
    tasks = made.tasks.merge(
        made.rounds[["round", "finished_at_s"]], on="round", suffixes=("", "_r")
    )
    waited = tasks[tasks[COLUMN] > 0.0]

    # Idle power of a kind of device is the same, whether in a task or after it.
    in_task_w = waited["energy_idle_j"] / (waited["finished_at_s"] - waited["dispatched_at_s"])
    after_w = waited[COLUMN] / (waited["finished_at_s_r"] - waited["finished_at_s"])
    assert len(waited) == ANSWERS - len(made.rounds)
    assert after_w.to_numpy() == pytest.approx(in_task_w.to_numpy())
