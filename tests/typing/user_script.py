"""Script of a user, checked by mypy and pyright in their strict modes; it is not run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import fleetsim
from fleetsim import Run, Scenario, ScenarioError, StudyResult
from fleetsim.contracts import ClientUpdate, Report

HOME = Path("runs")


def cheapest(runs: dict[str, Run], target: float) -> str | None:
    """Name of the run that needs the fewest joules."""
    joules = {name: run.energy_to_accuracy(target) for name, run in runs.items()}
    reached = {name: value for name, value in joules.items() if value is not None}
    return min(reached, key=lambda name: reached[name]) if reached else None


class Median:
    """Aggregator without a state, whose models are of float64."""

    def aggregate(
        self, model: NDArray[np.float32], reports: Sequence[Report]
    ) -> NDArray[np.float64]:
        vectors = [report.vector for report in reports if report.vector is not None]
        return np.median(np.stack(vectors), axis=0).astype(np.float64)


class Momentum:
    """Aggregator with a state."""

    sees_single_updates = False

    def __init__(self, share: float) -> None:
        self.share = share
        self.change: NDArray[np.float32] = np.zeros(1, dtype=np.float32)

    def aggregate(
        self, base: NDArray[np.float32], reports: Sequence[Report]
    ) -> NDArray[np.float32]:
        total = np.zeros_like(base)
        for report in reports:
            if report.vector is not None:
                total += report.vector - base
        mean = total / np.float32(len(reports))
        self.change = (self.share * self.change + mean).astype(np.float32)
        return base + self.change

    def state(self) -> dict[str, Any]:
        return {"change": self.change}

    def restore(self, state: dict[str, Any]) -> None:
        self.change = state["change"]


class Training:
    """Training of a client."""

    def train_client(
        self, model: torch.nn.Module, data: Any, generator: np.random.Generator, settings: Any
    ) -> ClientUpdate:
        return ClientUpdate(loss=0.0)


class Margin:
    """Loss of each sample."""

    def losses(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (1.0 - outputs.gather(1, labels[:, None]).squeeze(1)).relu()


def squared(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (logits - torch.nn.functional.one_hot(labels, logits.shape[1])).square().sum(dim=1)


def in_turn(
    labels: NDArray[np.int64], num_clients: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    return [np.arange(client, len(labels), num_clients) for client in range(num_clients)]


def own_parts() -> Iterator[Run]:
    """Runs with parts of one's own, as objects, classes and functions."""
    yield fleetsim.run("quickstart", aggregator=Median(), partition=in_turn, loss=squared)
    yield fleetsim.run("quickstart", aggregator=Momentum(0.9), local=Training(), loss=Margin())
    yield fleetsim.run("quickstart", aggregator=Median, local=Training, loss=Margin)
    yield fleetsim.run("quickstart", model=torch.nn.Linear, loss=torch.nn.CrossEntropyLoss())


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
