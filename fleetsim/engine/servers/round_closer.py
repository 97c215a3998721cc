"""Closing of rounds: evaluation, sums, checks, records, and notices to selector and progress."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fleetsim.contracts import (
    Evaluation,
    Progress,
    Recorder,
    Report,
    RoundOutcome,
    RoundRow,
    State,
    TaskRow,
)
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.global_model import GlobalModel
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.rounds import Span, battery_levels, check_conserved, round_row
from fleetsim.engine.world import World


class RoundRecord:
    """Rounds of a run so far, as its record has them."""

    def __init__(
        self, world: World, recorder: Recorder, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._world, self._recorder, self._on_progress = world, recorder, on_progress
        self.round = 0
        self.energy_total_j = 0.0

    def _closed(self, rows: Sequence[TaskRow], span: Span, **columns: Any) -> RoundRow:
        """Count another round, and return its row from those of all its tasks; see `round_row`."""
        self.round += 1
        row = round_row(
            rows,
            span,
            round_=self.round,
            energy_before_j=self.energy_total_j,
            batteries=battery_levels(self._world, span.finished_at_s),
            **columns,
        )
        check_conserved(self._world, row)
        self.energy_total_j = row.energy_total_j
        return row

    def _write(self, rows: Sequence[TaskRow], row: RoundRow) -> None:
        for task_row in rows:
            self._recorder.task(task_row)
        self._recorder.round(row)

    def announce(self, row: RoundRow, accuracy: float | None) -> None:
        """Report the progress of a run after a round is closed and saved."""
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    round=self.round,
                    now_s=row.finished_at_s,
                    accuracy=accuracy,
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


class Observed(NamedTuple):
    """Round that was shown to the selector, without the updates, which take much memory."""

    aggregated: bool
    validation: Evaluation | None
    diagnostics: str | None


class RoundCloser(RoundRecord):
    """Closing of the rounds of a server."""

    def __init__(
        self,
        parts: Parts,
        world: World,
        model: GlobalModel,
        selector: CheckedSelector,
        *,
        last_round: int | None,
    ) -> None:
        super().__init__(world, parts.recorder, parts.on_progress)
        self._learning, self._last_round = parts.learning, last_round
        self._selector, self._model = selector, model

    def show(self, span: Span, reports: Sequence[Report], *, aggregated: bool) -> Observed:
        """Show the next round to the selector, by the reports of its train tasks."""
        validation = self._model.validate()
        diagnostics = self._selector.observe(
            RoundOutcome(
                round=self.round + 1,
                started_at_s=span.started_at_s,
                finished_at_s=span.finished_at_s,
                selected=np.array([report.client for report in reports], dtype=np.int64),
                reports=tuple(reports),
                aggregated=aggregated,
                parameters=self._model.parameters,
                validation=validation,
            )
        )
        return Observed(aggregated, validation, diagnostics)

    def close(self, span: Span, rows: Sequence[TaskRow], observed: Observed) -> RoundRow:
        """Close the next round, of rows of all tasks."""
        number = self.round + 1
        is_due = number % self._learning.evaluate_every_rounds == 0 or number == self._last_round
        row = self._closed(
            rows,
            span,
            aggregated=observed.aggregated,
            evaluation=self._model.evaluate() if is_due else None,
            validation=observed.validation,
        )
        row = row._replace(selector_diagnostics=observed.diagnostics, epsilon=self._spent(row))
        self._write(rows, row)
        return row

    def _spent(self, row: RoundRow) -> float | None:
        accountant = self._learning.accountant
        if accountant is None:
            return None
        if row.aggregated:
            accountant.spend(row.num_selected, row.num_eligible)
        return accountant.epsilon
