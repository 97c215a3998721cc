"""Closing of rounds: evaluation, sums, checks, records, and notices to selector and progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fleetsim.contracts import (
    Progress,
    Recorder,
    Report,
    RoundOutcome,
    RoundRow,
    Selector,
    State,
    TaskRow,
)
from fleetsim.engine.servers.global_model import GlobalModel, Learning
from fleetsim.engine.servers.rounds import Span, battery_levels, check_conserved, round_row
from fleetsim.engine.world import World


class RoundCloser:
    """Rounds of a run so far."""

    def __init__(
        self,
        *,
        world: World,
        model: GlobalModel,
        selector: Selector,
        recorder: Recorder,
        learning: Learning,
        last_round: int | None,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._world = world
        self._model = model
        self._selector = selector
        self._recorder = recorder
        self._evaluate_every_rounds = learning.evaluate_every_rounds
        self._last_round = last_round
        self._on_progress = on_progress
        self.round = 0
        """Rounds closed so far."""
        self.energy_total_j = 0.0
        """Joules of all rounds in the record."""

    def close(
        self,
        span: Span,
        rows: Sequence[TaskRow],
        *,
        reports: Sequence[Report],
        aggregated: bool,
    ) -> RoundRow:
        """Close the next round.

        Args:
            span: time of the round.
            rows: rows of all tasks that ended in it.
            reports: reports of its train tasks, in the order of the selection.
            aggregated: true if there is a new global model.

        Raises:
            SimulationError: joules are not conserved.
        """
        self.round += 1
        is_due = self.round % self._evaluate_every_rounds == 0 or self.round == self._last_round
        row = round_row(
            rows,
            span,
            round_=self.round,
            aggregated=aggregated,
            evaluation=self._model.evaluate() if is_due else None,
            energy_before_j=self.energy_total_j,
            batteries=battery_levels(self._world, span.finished_at_s),
        )
        check_conserved(self._world, row)
        self.energy_total_j = row.energy_total_j
        for task_row in rows:
            self._recorder.task(task_row)
        self._recorder.round(row)
        self._selector.observe(
            RoundOutcome(
                round=self.round,
                started_at_s=row.started_at_s,
                finished_at_s=row.finished_at_s,
                selected=np.array([report.client for report in reports], dtype=np.int64),
                reports=tuple(reports),
                aggregated=aggregated,
                parameters=self._model.parameters,
                validation=self._model.validate(),
            )
        )
        return row

    def announce(self, row: RoundRow) -> None:
        """Report the progress of a run after a round is closed and saved."""
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    round=self.round,
                    now_s=row.finished_at_s,
                    accuracy=self._model.accuracy,
                    energy_total_j=self.energy_total_j,
                    num_delivered=row.num_delivered,
                    num_selected=row.num_selected,
                )
            )

    def state(self) -> State:
        """Return everything that `restore` needs."""
        return {
            "round": np.array(self.round),
            "energy_total_j": np.array(self.energy_total_j),
        }

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.round = int(state["round"])
        self.energy_total_j = float(state["energy_total_j"])
