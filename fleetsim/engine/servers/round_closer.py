"""Closing of rounds: evaluation, sums, checks, records, and notices to selector and progress."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import Progress, Report, RoundOutcome, RoundRow, State, TaskRow
from fleetsim.engine.servers.parts import LiveParts, Parts
from fleetsim.engine.servers.rounds import Span, battery_levels, check_conserved, round_row


class RoundCloser:
    """Rounds of a run so far."""

    def __init__(self, parts: Parts, live: LiveParts, *, last_round: int | None) -> None:
        self._parts = parts
        self._selector, self._world, self._model = live.selector, live.world, live.model
        self._last_round = last_round
        self.round = 0
        """Rounds closed so far."""
        self.energy_total_j = 0.0
        """Joules of all rounds in the record."""

    def close(
        self, span: Span, rows: Sequence[TaskRow], *, reports: Sequence[Report], aggregated: bool
    ) -> RoundRow:
        """Close the next round, of rows of all tasks and of reports of its train tasks."""
        self.round += 1
        every_rounds = self._parts.learning.evaluate_every_rounds
        is_due = self.round % every_rounds == 0 or self.round == self._last_round
        validation = self._model.validate()
        row = round_row(
            rows,
            span,
            round_=self.round,
            aggregated=aggregated,
            evaluation=self._model.evaluate() if is_due else None,
            energy_before_j=self.energy_total_j,
            batteries=battery_levels(self._world, span.finished_at_s),
            validation=validation,
        )
        check_conserved(self._world, row)
        self.energy_total_j = row.energy_total_j
        diagnostics = self._selector.observe(
            RoundOutcome(
                round=self.round,
                started_at_s=row.started_at_s,
                finished_at_s=row.finished_at_s,
                selected=np.array([report.client for report in reports], dtype=np.int64),
                reports=tuple(reports),
                aggregated=aggregated,
                parameters=self._model.parameters,
                validation=validation,
            )
        )
        row = row._replace(selector_diagnostics=diagnostics, epsilon=self._spent(row))
        for task_row in rows:
            self._parts.recorder.task(task_row)
        self._parts.recorder.round(row)
        return row

    def _spent(self, row: RoundRow) -> float | None:
        """Return epsilon after a round, of which an aggregation alone spends any."""
        accountant = self._parts.learning.accountant
        if accountant is None:
            return None
        if row.aggregated:
            accountant.spend(row.num_selected, row.num_eligible)
        return accountant.epsilon

    def announce(self, row: RoundRow) -> None:
        """Report the progress of a run after a round is closed and saved."""
        if self._parts.on_progress is not None:
            self._parts.on_progress(
                Progress(
                    round=self.round,
                    now_s=row.finished_at_s,
                    accuracy=self._model.accuracy,
                    energy_total_j=self.energy_total_j,
                    num_delivered=row.num_delivered,
                    num_selected=row.num_selected,
                    epsilon=row.epsilon,
                )
            )

    def state(self) -> State:
        """Return everything that `restore` needs."""
        return {"round": np.array(self.round), "energy_total_j": np.array(self.energy_total_j)}

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.round = int(state["round"])
        self.energy_total_j = float(state["energy_total_j"])
