"""Trials of a search: their costs, which of them is the best, and the file that keeps them.

A seed that never reached the target counts with what it had spent at its end, a lower bound of its
cost. Its trial is ranked behind all that keep both constraints: every seed reached the target, and
the geometric mean in the bounded metric is within its bound.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from fleetsim.errors import DataError
from fleetsim.record import atomic_files
from fleetsim.schema import faults
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings
from fleetsim.studies.page.intervals import geometric
from fleetsim.studies.search.search_file import Objective, Value

FILE = "trials.json"
_HINT = "delete it; the runs that were made are found again"


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
    parameters: dict[str, Value]
    """Numbers, or numbers of choices as text, by key path; trial 0, the scenario, has none."""
    state: Literal["complete", "pruned", "failed"] = "pruned"
    """Failed: the scenario is refused, or a run failed."""
    seeds: tuple[SeedCosts, ...] = ()
    """Seeds that were run, in the order of the file."""
    reason: str = ""
    """Reason of a failed trial."""

    @property
    def num_reached(self) -> int:
        """Seeds that reached the target."""
        return sum(each.is_reached for each in self.seeds)

    def costs(self, *, num_seeds: int | None = None) -> list[float]:
        """Return the geometric means over the first seeds, or all, in each metric."""
        table = np.array([each.costs for each in self.seeds[:num_seeds]])
        return [geometric(column).center for column in table.T]

    def excess(self, objective: Objective) -> dict[str, float]:
        """Return by how much a trial with seeds breaks each constraint; 0 or less: it holds."""
        result = {"target missed": 1.0 - self.num_reached / len(self.seeds)}
        if objective.bound is not None:
            result["over the bound"] = math.log(self.costs()[1] / objective.bound.most)
        return result

    def outcome(self, objective: Objective) -> str:
        """Return the state in words: complete, pruned, failed, or the constraint it breaks."""
        excess = self.excess(objective) if self.state == "complete" else {}
        return next((name for name, each in excess.items() if each > 0.0), self.state)

    def is_clearly_worse(self, best: "Trial | None", objective: Objective, ratio: float) -> bool:
        """Return whether the first seeds say that a trial will not be the best.

        They do if a seed missed the target, or if the cost of the best trial with the same seeds,
        or the bound, is exceeded by more than the ratio.
        """
        if best is None or best.outcome(objective) != "complete":
            return False
        missed, *over = self.excess(objective).values()
        same = best.costs(num_seeds=len(self.seeds))[0]
        return (
            missed > 0.0
            or max(over, default=0.0) > math.log(ratio)
            or (self.costs()[0] > ratio * same)
        )


def best_of(trials: Sequence[Trial], objective: Objective) -> Trial | None:
    """Return the best complete trial: the cheapest that keeps, or else the least breaks, limits."""

    def rank(trial: Trial) -> tuple[float, float]:
        return sum(max(0.0, each) for each in trial.excess(objective).values()), trial.costs()[0]

    return min((one for one in trials if one.state == "complete"), key=rank, default=None)


class _Saved(Settings):
    search: str
    trials: tuple[Trial, ...]


def read(folder: Path, identity: str) -> list[Trial]:
    """Return the trials that a search has saved; none if there is no file.

    Raises:
        DataError: the file is damaged, or that of another search.
    """
    path = folder / FILE
    if not path.exists():
        return []
    data = atomic_files.read_json(path, hint=_HINT)
    try:
        saved = faults.check(_Saved, Document(data, str(path), has_lines=False), DataError)
    except DataError as fault:
        raise DataError(f"{fault.faults[0]}; {_HINT}") from None
    if saved.search != identity:
        raise DataError(
            f"{path}: is that of another search: its ranges, objective, seeds or scenario were"
            f" changed; give the search another name, or {_HINT}"
        )
    return list(saved.trials)


def write(folder: Path, identity: str, trials: Sequence[Trial]) -> None:
    """Save the trials of a search."""
    text = _Saved(search=identity, trials=tuple(trials)).model_dump_json(indent=1)
    atomic_files.write(folder / FILE, f"{text}\n".encode(), hint=_HINT)
