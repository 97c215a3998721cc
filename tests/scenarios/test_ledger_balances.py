"""Double entry on real runs: what the tasks spent is what the clients' meters measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fleetsim.record.ledger import COMPONENTS
from fleetsim.scenario import load
from fleetsim.simulate import run

LATE = ["server.deadline_s=0.25"]
SHORT = ["server.deadline_s=0.2", "server.minimum_reports=6"]
PROBING = ["server.selector.kind=power-of-choice"]
BUFFERED = ["server.max_staleness=0", "server.deadline_s=4"]


@pytest.mark.parametrize(
    ("name", "changes", "rounds", "train", "fates"),
    [
        ("quickstart", LATE, 20, False, {"used", "late", "cancelled"}),
        ("quickstart", SHORT, 20, False, {"used", "unused", "late"}),
        ("quickstart", PROBING, 4, True, {"used", "cancelled"}),
        ("quickstart-fedbuff", BUFFERED, 20, False, {"used", "stale", "cancelled"}),
    ],
)
def test_the_ledger_of_a_run_adds_up_to_meters_and_rounds(
    name: str, changes: list[str], rounds: int, train: bool, fates: set[str], tmp_path: Path
) -> None:
    scenario = load(name, [*changes, f"stop.rounds={rounds}"])
    done = run(scenario, out=tmp_path / "run", train=train, workers=1)
    entries = done.ledger()
    by_client = entries.groupby(["client", "component"])["energy_j"].sum()
    wasted = entries[~entries["fate"].isin(["used", "unused"])]

    for component, column in COMPONENTS.items():
        for client, metered_j in enumerate(done.clients[column].tolist()):
            spent_j = float(by_client.get((client, component), 0.0))
            assert spent_j == pytest.approx(metered_j, rel=1e-9, abs=1e-9)
    assert math.fsum(entries["energy_j"]) == pytest.approx(done.rounds["energy_total_j"].iloc[-1])
    assert math.fsum(wasted["energy_j"]) == pytest.approx(done.rounds["energy_wasted_j"].sum())
    assert set(entries["fate"]) >= fates
    assert set(entries["purpose"]) == ({"train", "probe"} if train else {"train"})
