"""Recovery of a known best set by FedGCS, beside random search with as many evaluations.

    python -m benchmarks.fedgcs_recovery
    python -m benchmarks.fedgcs_recovery --seeds 3

A synthetic score has 24 clients, of which 5 are wanted. Each client has a worth, uniform in [0, 1],
and seconds and joules, log-normal with a deviation of 0.5. A set has the mean worth as performance,
the largest seconds and the sum of the joules; its score is (1) of FedGCS, with the medians of all
42,504 sets as budgets. All sets are scored, so the best one is known.

Each method evaluates 300 sets, as many as the paper has records:

- random search: the best of 300 distinct sets;
- FedGCS offline: one set proposed after a fit to 300 random sets, the same ones, by the paper's
  choice and by that of generated sets;
- FedGCS online: 150 random sets, then 150 rounds of the selector, fitted anew every 15 rounds.
  The best of its proposals counts.

Shares are those of the best score. The table has the processor time of fits and proposals.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks import machine
from benchmarks.cells import table
from fleetsim import rng
from fleetsim.contracts import (
    Evaluation,
    FleetView,
    FloatArray,
    IntArray,
    Outcome,
    Purpose,
    Report,
    RoundOutcome,
    RoundView,
)
from fleetsim.selectors.fedgcs.equations import scores
from fleetsim.selectors.fedgcs.records import SelectionRecords
from fleetsim.selectors.fedgcs.selector import FedGCSSelector
from fleetsim.selectors.fedgcs.settings import FedGCSSettings

NUM_CLIENTS, WANTED = 24, 5
NUM_EVALUATIONS, NUM_RANDOM = 300, 150
NEAR = 0.98
"""Share of the best score that counts as recovered."""
OFFLINE_EPOCHS = 40
ONLINE = FedGCSSettings(
    choice="generated",
    repeats="avoided",
    exploration_fraction=0.0,
    warm_up_rounds=NUM_RANDOM,
    refit_rounds=15,
    refit_epochs=15,
    steps=5,
)
_MODEL = np.zeros(1, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Clients with known worth and costs, and the scores of all their sets."""

    worth: FloatArray
    seconds: FloatArray
    joules: FloatArray

    @classmethod
    def of_seed(cls, seed: int) -> World:
        """Return the clients of a seed."""
        draw = rng.stream(seed, "benchmarks/fedgcs recovery")
        return cls(
            draw.uniform(0.0, 1.0, NUM_CLIENTS),
            draw.lognormal(0.0, 0.5, NUM_CLIENTS),
            draw.lognormal(0.0, 0.5, NUM_CLIENTS),
        )

    def records(self, sets: IntArray) -> SelectionRecords:
        """Return what sets of clients [n, K] bring and cost."""
        return SelectionRecords(
            tuple(sets),
            self.worth[sets].mean(axis=1),
            self.seconds[sets].max(axis=1),
            self.joules[sets].sum(axis=1),
        )

    def all_sets(self) -> IntArray:
        """Return all sets, in lexicographic order [C(N, K), K]."""
        return np.array(list(itertools.combinations(range(NUM_CLIENTS), WANTED)))


class Search:
    """World of a seed, with the sets that random search evaluates, and what the methods find.

    Shares are those of the best score.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._world = World.of_seed(seed)
        sets = self._world.all_sets()
        everything = self._world.records(sets)
        self._budgets = {
            "budget_s": float(np.median(everything.latency_s)),
            "budget_j": float(np.median(everything.energy_j)),
        }
        self._best = float(self._scores(everything).max())
        order = rng.stream(seed, "benchmarks/fedgcs sets").permutation(len(sets))
        self._evaluated = everything.chosen(order[:NUM_EVALUATIONS])

    def random(self) -> float:
        """Return the share of the best of the evaluated random sets."""
        return float(self._shares(self._evaluated).max())

    def offline(self) -> tuple[float, float]:
        """Return the shares of one proposal after a fit, by the paper's choice and generated."""
        from fleetsim.selectors.fedgcs import fitting  # noqa: PLC0415

        rules = FedGCSSettings(length="fixed", exploration_fraction=0.0, **self._budgets)
        fitted = fitting.fit(
            self._evaluated,
            num_clients=NUM_CLIENTS,
            settings=rules,
            seed=self._seed,
            epochs=OFFLINE_EPOCHS,
        )

        def share(choice: str) -> float:
            selector = FedGCSSelector(rules.model_copy(update={"choice": choice}))
            selector.setup(_fleet(self._seed))
            selector.take_up(selector.learned() | fitted.weights)
            proposed = selector.select(_view(1))
            return float(self._shares(self._world.records(proposed[None])).item())

        return share("representation"), share("generated")

    def online(self) -> Iterator[float]:
        """Yield the share of each proposal of a selector that met random sets first."""
        selector = FedGCSSelector(ONLINE.model_copy(update=self._budgets | {"length": "fixed"}))
        selector.setup(_fleet(self._seed))
        for round_ in range(1, NUM_EVALUATIONS + 1):
            proposed = selector.select(_view(round_))
            is_given = round_ <= NUM_RANDOM
            chosen = self._evaluated.selections[round_ - 1] if is_given else proposed
            result = self._world.records(chosen[None])
            if not is_given:
                yield float(self._shares(result).item())
            selector.observe(_outcome(round_, chosen, result))

    def _shares(self, records: SelectionRecords) -> FloatArray:
        return self._scores(records) / self._best

    def _scores(self, records: SelectionRecords) -> FloatArray:
        return scores(records.performance, records.latency_s, records.energy_j, **self._budgets)


@dataclass(frozen=True, slots=True)
class Recovered:
    """Shares of the best score that the methods reach, and processor times."""

    random: float
    offline: float
    offline_generated: float
    online: float
    offline_s: float
    online_s: float


def recovered(seed: int) -> Recovered:
    """Let all methods search the world of a seed."""
    search = Search(seed)
    began_s = time.process_time()
    offline, offline_generated = search.offline()
    between_s = time.process_time()
    online = max(search.online())
    return Recovered(
        random=search.random(),
        offline=offline,
        offline_generated=offline_generated,
        online=online,
        offline_s=between_s - began_s,
        online_s=time.process_time() - between_s,
    )


def _fleet(seed: int) -> FleetView:
    return FleetView(
        seed=seed,
        num_samples=np.ones(NUM_CLIENTS, dtype=np.int64),
        cohort=WANTED,
        epochs=1,
        batch_size=1,
        learning_rate=0.1,
        planned_rounds=None,
        parameters=_MODEL,
        validation=Evaluation(accuracy=0.0, loss=0.0),
    )


def _view(round_: int) -> RoundView:
    clients = np.arange(NUM_CLIENTS)
    return RoundView(round_, 0.0, WANTED, clients, np.ones(NUM_CLIENTS, dtype=np.int64), _MODEL)


def _outcome(round_: int, chosen: IntArray, result: SelectionRecords) -> RoundOutcome:
    share_j = float(result.energy_j.item()) / chosen.size
    reports = tuple(
        Report(client, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 1.0, 1, energy_j=share_j)
        for client in chosen.tolist()
    )
    return RoundOutcome(
        round=round_,
        started_at_s=0.0,
        finished_at_s=float(result.latency_s.item()),
        selected=chosen,
        reports=reports,
        aggregated=True,
        parameters=_MODEL,
        validation=Evaluation(accuracy=float(result.performance.item()), loss=0.0),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds, from 0; 10")
    num = parser.parse_args().seeds
    rows, found = [], []
    for seed in range(num):
        one = recovered(seed)
        found.append(one)
        rows.append(_cells(str(seed), one))
        print(f"seed {seed}: {one}", flush=True)
    names = ("random", "offline", "offline_generated", "online")
    near = [f"{sum(getattr(one, name) >= NEAR for one in found)} of {num}" for name in names]
    rows.append((f"at least {NEAR}", *near, "", ""))
    heads = (
        "seed",
        "random search",
        "offline, paper's choice",
        "offline, generated",
        "online",
        "offline, s",
        "online, s",
    )
    print(table(heads, rows))
    said = machine.describe()
    print(", ".join(f"{key}: {value}" for key, value in said.items()))


def _cells(name: str, one: Recovered) -> tuple[str, ...]:
    shares = (one.random, one.offline, one.offline_generated, one.online)
    seconds = (one.offline_s, one.online_s)
    return (name, *(f"{share:.3f}" for share in shares), *(f"{each:.0f}" for each in seconds))


if __name__ == "__main__":
    main()
