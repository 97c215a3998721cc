"""Script of a user, checked by mypy and pyright in their strict modes; it is not run."""

from __future__ import annotations

from pathlib import Path

import fleetsim
from fleetsim import Run, Scenario, ScenarioError, StudyResult

HOME = Path("runs")


def cheapest(runs: dict[str, Run], target: float) -> str | None:
    """Name of the run that needs the fewest joules."""
    joules = {name: run.energy_to_accuracy(target) for name, run in runs.items()}
    reached = {name: value for name, value in joules.items() if value is not None}
    return min(reached, key=lambda name: reached[name]) if reached else None


def main() -> None:
    scenario: Scenario = fleetsim.load("quickstart", ["stop.rounds=30"], seed=2)
    runs: dict[str, Run] = {}
    for kind in ("random", "oort"):
        changes = {"server.selector.kind": kind}
        runs[kind] = fleetsim.run(scenario, changes, out=HOME / kind, exist_ok=True)
    best = cheapest(runs, 0.8)
    if best is not None:
        runs[best].figure("accuracy-time").savefig("best.png")
        print(runs[best].rounds["accuracy"].max(), runs[best].folder.name)
    result: StudyResult = fleetsim.study("quick", seeds=[1, 2], home=HOME)
    print(result.verdicts[["arm", "sentence"]], result.run(arm="oort", seed=1).manifest.digest)
    try:
        fleetsim.run({"name": "mine"}, stop__rounds=5)
    except ScenarioError as fault:
        print(fault.faults[0].upper())


if __name__ == "__main__":
    main()
