"""Trials of a search: their costs, which of them is the best, and the file that keeps them.

A trial is feasible if every seed reached the target and the bound holds. A seed that never reached
the target counts with what it had spent at its end, a lower bound of its cost; its trial is ranked
behind all feasible ones, by the share of its seeds that missed the target.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from fleetsim.errors import DataError
from fleetsim.record import atomic_files
from fleetsim.settings import Settings
from fleetsim.studies.page.intervals import geometric
from fleetsim.studies.run_store import ELSEWHERE
from fleetsim.studies.search.settings import Objective

FILE = "trials.json"
_FORMAT = 1


class SeedCosts(Settings):
    """Costs of one run of a trial."""

    seed: int
    costs: tuple[float, ...]
    """In the metric of the objective, then in that of the bound; all positive."""
    is_reached: bool
    """True if the run reached the target."""


class Trial(Settings):
    """One combination of values of the searched keys, with the costs of its runs."""

    number: int
    """Number of the trial, from 0."""
    parameters: dict[str, int | float | str]
    """Numbers, or labels of choices, by key path."""
    state: Literal["complete", "pruned", "failed"]
    """Whether all seeds were run; failed: the scenario is refused, or a run failed."""
    seeds: tuple[SeedCosts, ...] = ()
    """Seeds that were run, in the order of the file."""
    reason: str = ""
    """Reason of a failed trial."""

    @property
    def num_reached(self) -> int:
        """Seeds that reached the target."""
        return sum(each.is_reached for each in self.seeds)

    def costs(self, *, num_seeds: int | None = None) -> tuple[float, ...]:
        """Return the geometric means over the seeds, or over the first few, in each metric."""
        table = np.array([each.costs for each in self.seeds[:num_seeds]])
        return tuple(geometric(column).center for column in table.T)

    def excess(self, objective: Objective) -> dict[str, float]:
        """Return by how much a trial with seeds breaks each constraint; 0 or less: it holds."""
        result = {"target": 1.0 - self.num_reached / len(self.seeds)}
        if objective.bound is not None:
            result["bound"] = math.log(self.costs()[1] / objective.bound.most)
        return result

    def is_feasible(self, objective: Objective) -> bool:
        """Return whether all seeds reached the target within the bound."""
        return self.state == "complete" and max(self.excess(objective).values()) <= 0.0

    def outcome(self, objective: Objective) -> str:
        """Return the state in words: complete, pruned, failed, or the constraint it breaks."""
        if self.state != "complete":
            return self.state
        broken = [name for name, each in self.excess(objective).items() if each > 0.0]
        return (
            {"target": "target missed", "bound": "over the bound"}[broken[0]]
            if broken
            else "complete"
        )


def best_of(trials: Sequence[Trial], objective: Objective) -> Trial | None:
    """Return the best complete trial: feasible and cheap, else the nearest to feasible."""

    def rank(trial: Trial) -> tuple[float, float]:
        broken = sum(max(0.0, each) for each in trial.excess(objective).values())
        return broken, trial.costs()[0]

    return min((one for one in trials if one.state == "complete"), key=rank, default=None)


def is_clearly_worse(
    trial: Trial, best: Trial | None, objective: Objective, ratio: float | None
) -> bool:
    """Return whether a trial is ended after its seeds so far, for what a feasible best one cost.

    It is if a seed missed the target, or if a geometric mean over its seeds exceeds, by more than
    the ratio, the bound or the cost of the best trial over the same seeds.
    """
    if ratio is None or best is None or not best.is_feasible(objective):
        return False
    excess = trial.excess(objective)
    cost, same = trial.costs()[0], best.costs(num_seeds=len(trial.seeds))[0]
    is_over = excess.get("bound", -math.inf) > math.log(ratio)
    return excess["target"] > 0.0 or is_over or cost > ratio * same


class Journal:
    """File of the trials of a search, replaced after every batch."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._path, self._identity = folder / FILE, identity

    def read(self) -> list[Trial]:
        """Return the trials in the file; none without it.

        Raises:
            DataError: the file is damaged, or that of another search.
        """
        hint = "delete it; runs that were made are found again"
        if not self._path.exists():
            return []
        data = atomic_files.read_json(self._path, hint=hint)
        if data.get("format") != _FORMAT or not isinstance(data.get("trials"), list):
            raise DataError(f"{self._path}: is no file of trials of this version; {hint}")
        if data.get("search") != self._identity:
            raise DataError(
                f"{self._path}: its trials are those of another search: ranges, objective, seeds or"
                f" scenario were changed; give the search another name, or {hint}"
            )
        try:
            trials = [Trial.model_validate_json(json.dumps(each)) for each in data["trials"]]
        except ValidationError as cause:
            fault = cause.errors()[0]
            raise DataError(f"{self._path}: {fault['loc']}: {fault['msg']}; {hint}") from None
        if [trial.number for trial in trials] != list(range(len(trials))):
            raise DataError(f"{self._path}: its trials are not numbered from 0; {hint}")
        return trials

    def write(self, trials: Sequence[Trial]) -> None:
        """Replace the file."""
        rows = [trial.model_dump(mode="json") for trial in trials]
        data = {"format": _FORMAT, "search": self._identity, "trials": rows}
        atomic_files.write(self._path, f"{json.dumps(data, indent=1)}\n".encode(), hint=ELSEWHERE)
