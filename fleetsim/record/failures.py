"""Failures of a whole run, read from its tables.

A run can end by its rules and still be no result. A model is at chance if its accuracy is not
clearly above that of the best constant answer: not above p + 3 sqrt(p (1 - p) / n), with the share
p of the most frequent label and n test samples. By chance a constant answer exceeds that once in
700 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Outcome, Purpose
from fleetsim.host import paths
from fleetsim.settings import Settings

if TYPE_CHECKING:
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

_CAUSES: Mapping[str, str] = {
    Outcome.LATE: "the deadline was too short: raise server.deadline_s, or lower the work of"
    " task.local and task.model",
    Outcome.OFFLINE: "clients left in mid-task: look at fleet.usage and server.eligibility, or set"
    " server.interruption.kind: pause",
    Outcome.BATTERY: "batteries ran low in mid-task: raise server.eligibility.min_battery_fraction,"
    " or look at fleet.battery",
    Outcome.LINK: "transfers were given up: raise fleet.channel.give_up_s or the channel's rates,"
    " or set server.compression",
    Outcome.CRASHED: "clients crashed: lower fleet.crash_per_hour, or mend what the ClientApp"
    " raises",
    Outcome.MEMORY: "devices had too little memory: look at fleet.memory, or lower"
    " task.local.batch_size or task.model",
    Outcome.CANCELLED: "the run ended before any answer: raise stop.time_s",
    Outcome.STALE: "updates were too old: raise server.max_staleness, or lower server.concurrency",
    Outcome.REFUSED: "updates were not finite, or larger than server.max_update_norm: lower"
    " task.local.optimizer.learning_rate",
}


class Failure(Settings):
    """One failure of a whole run."""

    kind: str
    """Short name, such as `nothing_delivered`."""
    what: str
    """One sentence on the failure."""
    cause: str
    """One sentence on its likely cause and the key to change."""


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


@dataclass(frozen=True, slots=True, eq=False)
class RunHistory:
    """The columns from which failures are read."""

    accuracy: FloatArray
    """Accuracy of every round [R], NaN where it was not evaluated."""
    loss: FloatArray
    """Loss, likewise."""
    num_eligible: IntArray
    num_delivered: IntArray
    aggregated: BoolArray
    task_round: IntArray
    """Round of every train task [T]."""
    client: IntArray
    outcome: NDArray[np.str_]

    @classmethod
    def read(cls, folder: Path) -> RunHistory:
        """Return the columns of a run folder whose tables are complete."""
        # Opened here: Arrow reads some names as addresses.
        with paths.opened(folder / "rounds.parquet") as file:
            rounds = pq.ParquetFile(file).read().to_pandas()
        with paths.opened(folder / "tasks.parquet") as file:
            tasks = pq.ParquetFile(file).read(columns=_TASK_COLUMNS).to_pandas()
        train = tasks[tasks["purpose"] == Purpose.TRAIN]
        return cls(
            accuracy=rounds["accuracy"].to_numpy(dtype=np.float64),
            loss=rounds["loss"].to_numpy(dtype=np.float64),
            num_eligible=rounds["num_eligible"].to_numpy(),
            num_delivered=rounds["num_delivered"].to_numpy(),
            aggregated=rounds["aggregated"].to_numpy(),
            task_round=train["round"].to_numpy(),
            client=train["client"].to_numpy(),
            outcome=train["outcome"].to_numpy(dtype=np.str_),
        )


def failures(
    history: RunHistory, *, baseline: Baseline | None, stop_rule: str, stop_text: str, selector: str
) -> list[Failure]:
    """Return the failures of a run that has ended, the most severe first.

    Without a `baseline` the run did not train; `selector` is the kind of the selector.
    """
    if not history.accuracy.size:
        return [
            Failure(
                kind="no_round",
                what="No round was completed.",
                cause=f"{stop_text}; see fleet.usage and stop.time_s.",
            )
        ]
    result = [*_deliveries(history)]
    is_starved = bool(result)
    if baseline is not None:
        result.extend(_learning(history, baseline, is_starved=is_starved))
    if stop_rule in ("no_clients", "no_updates") and not is_starved:
        result.append(Failure(kind="ended_early", what="The run ended early.", cause=stop_text))
    if selector != "fixed":
        result.extend(_selection(history))
    return result


def _deliveries(history: RunHistory) -> Iterator[Failure]:
    num_rounds = history.accuracy.size
    reached = history.outcome == str(Outcome.DELIVERED)
    if not reached.any():
        yield Failure(
            kind="nothing_delivered",
            what=f"Nothing was delivered: none of {reached.size:,} train tasks in {num_rounds:,}"
            " round(s).",
            cause=_likely(history.outcome),
        )
        return
    if not history.aggregated.any():
        yield Failure(
            kind="nothing_aggregated",
            what=f"The model was never updated: {int(reached.sum()):,} train tasks were delivered,"
            " but in no round enough of them.",
            cause="Lower server.minimum_reports, or see why the others were lost.",
        )
        return
    counted = history.outcome != str(Outcome.CANCELLED)
    share = reached.sum() / max(1, counted.sum())
    last = (
        int(np.flatnonzero(history.num_delivered).max()) + 1 if history.num_delivered.any() else 0
    )
    if counted.sum() >= _MANY_TASKS and share < _FEW_FRACTION:
        yield Failure(
            kind="almost_nothing_delivered",
            what=f"Almost nothing was delivered: {int(reached.sum()):,} of {int(counted.sum()):,}"
            " train tasks.",
            cause=_likely(history.outcome[~reached & counted]),
        )
    elif num_rounds - last >= max(_LAST_ROUNDS, num_rounds // 2):
        yield Failure(
            kind="deliveries_ended",
            what=f"After round {last:,} nothing was delivered any more, in {num_rounds - last:,}"
            " rounds.",
            cause=_likely(history.outcome[history.task_round > last]),
        )


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def _likely(outcomes: NDArray[np.str_]) -> str:
    """Return one sentence on the cause of the most frequent outcome."""
    if not outcomes.size:
        return "No client was selected: see server.selector and server.eligibility."
    kinds, counts = np.unique(outcomes, return_counts=True)
    most = str(kinds[counts.argmax()])
    share = counts.max() / outcomes.size
    return f"{_percent(share)} of them ended as {most}: {_CAUSES[most]}."


def _learning(history: RunHistory, baseline: Baseline, *, is_starved: bool) -> Iterator[Failure]:
    was_evaluated = np.isfinite(history.accuracy)
    if not was_evaluated.any():
        return
    accuracy, loss = history.accuracy[was_evaluated], history.loss[was_evaluated]
    rate = "task.local.optimizer.learning_rate"
    broken = np.flatnonzero(~np.isfinite(loss))
    if broken.size:
        first = int(np.flatnonzero(was_evaluated)[broken[0]]) + 1
        yield Failure(
            kind="loss_not_finite",
            what=f"The model's loss is not finite from round {first:,} on.",
            cause=f"Training diverged: lower {rate}, or that of server.aggregator.",
        )
        return
    chance = f"{_percent(baseline.accuracy)}, which the most frequent label alone gets"
    if accuracy.max() <= baseline.most_by_luck:
        yield Failure(
            kind="nothing_learned",
            what=f"Nothing was learned: accuracy never rose clearly above {chance}; the best is"
            f" {_percent(accuracy.max())}.",
            cause="The model got no updates, see above."
            if is_starved
            else f"Change {rate} (too low learns nothing, too high diverges), train longer"
            " (task.local.epochs, stop.rounds), or look at the data.",
        )
    elif accuracy[-1] <= baseline.most_by_luck:
        yield Failure(
            kind="unlearned",
            what=f"What was learned was lost: accuracy fell from {_percent(accuracy.max())} to"
            f" {_percent(accuracy[-1])}, about {chance}.",
            cause=f"Training diverged: lower {rate}, let it decay, or lower that of"
            " server.aggregator.",
        )


def _selection(history: RunHistory) -> Iterator[Failure]:
    present = np.unique(history.task_round)
    if present.size < _SAME_ROUNDS:
        return
    order = np.lexsort((history.client, history.task_round))
    rounds, clients = history.task_round[order], history.client[order]
    cohorts = np.split(clients, np.flatnonzero(np.diff(rounds)) + 1)
    first = cohorts[0]
    if any(not np.array_equal(first, cohort) for cohort in cohorts[1:]):
        return
    num_eligible = int(np.median(history.num_eligible))
    if num_eligible > first.size:
        yield Failure(
            kind="same_clients",
            what=f"Every round selected the same {first.size:,} client(s), of {num_eligible:,} that"
            " were eligible.",
            cause="The selector never tried others: see its exploration keys in server.selector.",
        )
