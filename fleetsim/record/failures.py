"""Failures of a whole run, read from its tables.

A run can end by its rules and still be no result. A model is at chance if its accuracy is not
clearly above that of the best constant answer: not above p + 3 sqrt(p (1 - p) / n), with the share
p of the most frequent label and n test samples. By chance a constant answer exceeds that once in
700 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import yaml

from fleetsim.contracts import Outcome, Purpose
from fleetsim.host import paths
from fleetsim.settings import Settings

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_FEW_FRACTION = 0.05
"""Share of delivered train tasks, of all that the server did not cancel, below which a run has
delivered almost nothing."""
_MANY_TASKS = 20
_LAST_ROUNDS = 5
"""Rounds without a delivery at the end of a run that are reported; at least half of all rounds."""
_SAME_ROUNDS = 30
"""Rounds after which a selector that always selects the same clients is reported."""
_DEVIATIONS = 3.0
_TASK_COLUMNS = ["round", "client", "purpose", "outcome"]


@cache
def _texts() -> dict[str, dict[str, str]]:
    text = (resources.files("fleetsim.record") / "failures.yaml").read_text("utf-8")
    known: dict[str, dict[str, str]] = yaml.safe_load(text)
    return known


class Failure(Settings):
    """One failure of a whole run."""

    kind: str
    """Short name, such as `nothing_delivered`."""
    what: str
    """One sentence on the failure."""
    cause: str
    """One sentence on its likely cause and the key to change."""

    @classmethod
    def of(cls, kind: str, **values: Any) -> Failure:
        """Return a failure with the texts of its kind, whose gaps the values fill."""
        texts = {key: text.format(**values) for key, text in _texts()[kind].items()}
        return cls(kind=kind, **texts)


class Baseline(Settings):
    """Accuracy of a constant answer on the test set."""

    accuracy: float
    """Share of the most frequent label."""
    num_samples: int
    """Labels of the test set; those of sequences count one by one."""

    @classmethod
    def of(cls, labels: NDArray[np.integer[Any]]) -> Baseline:
        """Return the baseline of test labels of any shape."""
        _, counts = np.unique(labels, return_counts=True)
        return cls(accuracy=float(counts.max() / labels.size), num_samples=int(labels.size))

    @property
    def most_by_luck(self) -> float:
        """Accuracy that is not clearly above the baseline."""
        variance = self.accuracy * (1.0 - self.accuracy) / self.num_samples
        return self.accuracy + _DEVIATIONS * math.sqrt(variance)


def read_tables(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rounds and the train tasks of a run folder whose tables are complete."""
    # Opened here: Arrow reads some names as addresses.
    with paths.opened(folder / "rounds.parquet") as file:
        rounds = pq.ParquetFile(file).read().to_pandas()
    with paths.opened(folder / "tasks.parquet") as file:
        tasks = pq.ParquetFile(file).read(columns=_TASK_COLUMNS).to_pandas()
    return rounds, tasks[tasks["purpose"] == Purpose.TRAIN]


def failures(
    rounds: pd.DataFrame,
    train: pd.DataFrame,
    *,
    baseline: Baseline | None,
    stop_rule: str,
    stop_text: str,
    selector: str,
) -> list[Failure]:
    """Return the failures of a run that has ended, the most severe first.

    `train` are the train tasks. Without a `baseline` the run did not train; `selector` is the kind
    of the selector.
    """
    if rounds.empty:
        return [Failure.of("no_round", stop_text=stop_text)]
    result = [*_deliveries(rounds, train)]
    is_starved = bool(result)
    if baseline is not None:
        result.extend(_learning(rounds, baseline, is_starved=is_starved))
    if stop_rule in ("no_clients", "no_updates") and not is_starved:
        result.append(Failure.of("ended_early", stop_text=stop_text))
    if selector != "fixed":
        result.extend(_selection(rounds, train))
    return result


def _deliveries(rounds: pd.DataFrame, train: pd.DataFrame) -> Iterator[Failure]:
    outcome, num_rounds = train["outcome"], len(rounds)
    reached, counted = outcome == Outcome.DELIVERED, outcome != Outcome.CANCELLED
    nums = {"num_delivered": int(reached.sum()), "num_counted": int(counted.sum())}
    delivered = np.flatnonzero(rounds["num_delivered"])
    last = int(delivered.max(initial=-1)) + 1
    if not reached.any():
        texts = {"num_tasks": len(train), "num_rounds": num_rounds, "likely": _likely(outcome)}
        yield Failure.of("nothing_delivered", **texts)
    elif not rounds["aggregated"].any():
        yield Failure.of("nothing_aggregated", **nums)
    elif counted.sum() >= _MANY_TASKS and reached.sum() / counted.sum() < _FEW_FRACTION:
        likely = _likely(outcome[~reached & counted])
        yield Failure.of("almost_nothing_delivered", likely=likely, **nums)
    elif num_rounds - last >= max(_LAST_ROUNDS, num_rounds // 2):
        likely = _likely(outcome[train["round"] > last])
        texts = {"last": last, "num_rounds": num_rounds - last, "likely": likely}
        yield Failure.of("deliveries_ended", **texts)


def _likely(outcomes: pd.Series[Any]) -> str:
    """Return one sentence on the cause of the most frequent outcome."""
    if outcomes.empty:
        return "No client was selected: see server.selector and server.eligibility."
    kinds, counts = np.unique(outcomes.to_numpy(dtype=np.str_), return_counts=True)
    most = str(kinds[counts.argmax()])
    share = 100.0 * counts.max() / len(outcomes)
    return f"{share:.1f} % of them ended as {most}: {_texts()['outcomes'][most]}."


def _learning(rounds: pd.DataFrame, baseline: Baseline, *, is_starved: bool) -> Iterator[Failure]:
    evaluated = rounds[np.isfinite(rounds["accuracy"].to_numpy(dtype=np.float64))]
    if evaluated.empty:
        return
    accuracy, best = evaluated["accuracy"].to_numpy(), evaluated["accuracy"].max()
    broken = np.flatnonzero(~np.isfinite(evaluated["loss"].to_numpy(dtype=np.float64)))
    texts = {
        "chance": 100.0 * baseline.accuracy,
        "best": 100.0 * best,
        "last": 100.0 * accuracy[-1],
    }
    if broken.size:
        yield Failure.of("loss_not_finite", first=evaluated["round"].iloc[broken[0]])
    elif best <= baseline.most_by_luck:
        failure = Failure.of("nothing_learned", **texts)
        starved = {"cause": "The model got no updates, see above."} if is_starved else {}
        yield failure.model_copy(update=starved)
    elif accuracy[-1] <= baseline.most_by_luck:
        yield Failure.of("unlearned", **texts)


def _selection(rounds: pd.DataFrame, train: pd.DataFrame) -> Iterator[Failure]:
    in_order = train.sort_values(["round", "client"], kind="stable")
    ends = np.flatnonzero(np.diff(in_order["round"])) + 1
    if ends.size + 1 < _SAME_ROUNDS:
        return
    first, *others = np.split(in_order["client"].to_numpy(), ends)
    num_eligible = int(np.median(rounds["num_eligible"]))
    if num_eligible > first.size and all(np.array_equal(first, other) for other in others):
        yield Failure.of("same_clients", num=first.size, num_eligible=num_eligible)
