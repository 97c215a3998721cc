"""Rounds of a Flower app: the open round, its tasks, its row, and the state after it.

A round begins with a batch of train messages, and lasts until the next one or the end of the app.
Its accuracy and loss are those that the server app measured, else those that its strategy
aggregated, else means over the evaluate messages.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fleetsim.contracts import (
    Evaluation,
    Outcome,
    Progress,
    Purpose,
    Recorder,
    State,
    TaskRow,
)
from fleetsim.contracts.recording import joined, part_of
from fleetsim.engine.servers.round_closer import RoundRecord
from fleetsim.engine.servers.rounds import EndedTask, Span, report_of, task_rows
from fleetsim.engine.servers.stop import WithoutUpdates
from fleetsim.engine.world import World
from fleetsim.flower.costs import AppSettings, num_samples_of, train_loss_of


@dataclass(slots=True)
class _OpenRound:
    started_at_s: float
    num_batches: int = 0
    num_eligible: int = 0
    idle_s: float = 0.0
    has_train: bool = False
    ended: list[EndedTask] = field(default_factory=list)
    """Tasks of messages that have ended, with the metrics of their replies."""
    central: dict[str, Any] = field(default_factory=dict)
    federated: dict[str, Any] = field(default_factory=dict)
    """Metrics that the strategy aggregated from the clients' evaluations."""


class RoundsOfMessages(RoundRecord):
    """Rounds of a run so far, and the open one."""

    def __init__(
        self,
        world: World,
        recorder: Recorder,
        settings: AppSettings,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        super().__init__(world, recorder, on_progress)
        self._settings = settings
        self.without_updates = WithoutUpdates(world.fleet.size)
        self.accuracy: float | None = None
        self._closed_at_s = 0.0
        self._open: _OpenRound | None = None

    @property
    def number(self) -> int:
        """Number of the open round, or else of the next one."""
        return self.round + 1

    @property
    def num_batches(self) -> int:
        """Batches of the open round, part of the address of draws."""
        return 0 if self._open is None else self._open.num_batches

    @property
    def is_open_with_train(self) -> bool:
        """True if another train batch begins another round."""
        return self._open is not None and self._open.has_train

    def begin(self, *, now_s: float, num_eligible: int, is_train: bool) -> None:
        """Take in that a batch of messages is dispatched: open a round if none is open."""
        if self._open is None:
            self._open = _OpenRound(self._closed_at_s)
        self._open.num_batches += 1
        if is_train:
            self._open.has_train = True
        if is_train or not self._open.num_eligible:
            self._open.num_eligible = num_eligible
        if not self._open.ended:
            self._open.idle_s = now_s - self._open.started_at_s

    def add(self, ended: EndedTask) -> None:
        """Add a message whose task has ended, with the metrics of its reply, to the open round."""
        assert self._open is not None, "a message ends in a round"
        self._open.ended.append(ended)
        result = ended.result
        self.without_updates.end(1, num_delivered=result.is_delivered, now_s=result.finished_at_s)

    def tell(self, metrics: dict[str, Any], *, of_clients: bool) -> None:
        """Take in what the server app measured, or its strategy aggregated from the clients'."""
        if self._open is not None:
            known = self._open.federated if of_clients else self._open.central
            known |= metrics

    def close(self, state: Callable[[], State] | None) -> None:
        """Close the open round if it has tasks; None as `state`: tasks in flight, no checkpoint."""
        open_, self._open = self._open, None
        if open_ is None or not open_.ended:
            return
        rows = self._rows(open_.ended)
        finished_at_s = max(row.finished_at_s for row in rows)
        self._closed_at_s = max(finished_at_s, open_.started_at_s)
        trained = [ended for ended in open_.ended if ended.purpose is Purpose.TRAIN]
        self._world.count([report_of(ended.result, None) for ended in trained])
        row = self._closed(
            rows,
            Span(
                open_.started_at_s,
                self._closed_at_s,
                open_.idle_s,
                probe_s=0.0,
                num_eligible=open_.num_eligible,
            ),
            aggregated=any(ended.result.is_delivered for ended in trained),
            evaluation=self._evaluation(open_),
        )
        self.accuracy = self.accuracy if row.accuracy is None else row.accuracy
        self._write(rows, row)
        if state is not None:
            self._recorder.checkpoint(state(), self._world.take_changed())
        self.announce(row, self.accuracy)

    def _rows(self, ended: Sequence[EndedTask]) -> list[TaskRow]:
        in_order = [
            each._replace(
                loss=train_loss_of(each.metrics or {}) if each.purpose is Purpose.TRAIN else None,
                metrics=None,  # no metrics of a training of fleetsim's
            )
            for each in sorted(ended, key=lambda each: each.result.task.number)
        ]
        return task_rows(in_order, self._world.fleet, round_=self.number)

    def _evaluation(self, open_: _OpenRound) -> Evaluation:
        result = []
        for of in (self._settings.accuracy_of, self._settings.loss_of):
            value = of(open_.central)
            if value is None:
                value = of(open_.federated)
            if value is None:
                value = _mean(
                    [
                        (number, num_samples_of(ended.metrics or {}) or 0)
                        for ended in open_.ended
                        if ended.purpose is Purpose.EVALUATE
                        and ended.result.outcome is Outcome.DELIVERED
                        and (number := of(ended.metrics or {})) is not None
                    ]
                )
            result.append(value)
        return Evaluation(accuracy=result[0], loss=result[1])

    def state(self) -> State:
        """Return everything that `restore` needs, between two rounds."""
        return {
            **super().state(),
            **joined({"without-updates": self.without_updates.state()}),
            "closed_at_s": np.array(self._closed_at_s),
            "accuracy": np.array(np.nan if self.accuracy is None else self.accuracy),
        }

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        super().restore(state)
        self.without_updates.restore(part_of(state, "without-updates"))
        self._closed_at_s = float(state["closed_at_s"])
        accuracy = float(state["accuracy"])
        self.accuracy = None if math.isnan(accuracy) else accuracy


def _mean(weighted: Sequence[tuple[float, int]]) -> float | None:
    """Return the mean of values by weight, a plain one if no weight is known; None of nothing."""
    if not weighted:
        return None
    total = sum(weight for _, weight in weighted)
    if total == 0:
        return math.fsum(value for value, _ in weighted) / len(weighted)
    return math.fsum(value * weight for value, weight in weighted) / total
