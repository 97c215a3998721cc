"""Balance of the ledger of real runs: energy of the tasks equals that of the clients' meters."""

import math

import pytest

from fleetsim.record.measures.ledger import COMPONENTS
from fleetsim.scenario import load
from fleetsim.simulate import run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes", "rounds", "train", "outcomes"),
    [
        ("quickstart", ["server.deadline_s=0.75"], 6, False, {"used", "late", "cancelled"}),
        ("quickstart", ["server.deadline_s=0.7", "server.minimum_reports=6"], 10, False,
         {"used", "unused", "late"}),
        ("quickstart", ["server.selector.kind=power-of-choice"], 2, True, {"used", "cancelled"}),
        ("interruptions", ["server.interruption={kind: pause, max_pause_s: 100, resume_s: 3}",
         "server.over_commit=1.5", "fleet.crash_per_hour=2"], 8, False,
         {"used", "cancelled", "crashed"}),
        ("interruptions", ["server.interruption={kind: partial, max_pause_s: 60,"
         " min_fraction: 0.3}"], 6, False, {"used", "offline"}),
        ("quickstart-fedbuff", ["server.max_staleness=0", "server.deadline_s=4"], 8, False,
         {"used", "stale", "cancelled"}),
    ],
)  # fmt: skip
def test_the_ledger_of_a_run_adds_up(name, changes, rounds, train, outcomes, tmp_path):
    scenario = load(name, [*changes, f"stop.rounds={rounds}"])
    done = run(scenario, out=tmp_path / "run", train=train, workers=1)
    entries = done.ledger()
    by_client = entries.groupby(["client", "component"])["energy_j"].sum()
    wasted = entries[~entries["energy_outcome"].isin(["used", "unused"])]

    for component, column in COMPONENTS.items():
        for client, metered_j in enumerate(done.clients[column].tolist()):
            spent_j = float(by_client.get((client, component), 0.0))
            assert spent_j == pytest.approx(metered_j, rel=1e-9, abs=1e-9)
    assert math.fsum(entries["energy_j"]) == pytest.approx(done.rounds["energy_total_j"].iloc[-1])
    assert math.fsum(wasted["energy_j"]) == pytest.approx(done.rounds["energy_wasted_j"].sum())
    assert set(entries["energy_outcome"]) >= outcomes
    assert set(entries["purpose"]) == ({"train", "probe"} if train else {"train"})
