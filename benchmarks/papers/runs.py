"""Runs of the experiments, of which a line of figures is enough."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers.experiments import price_targets
from benchmarks.papers.outcomes import Origin, Outcome, OutcomeFile, outcome_of
from fleetsim.schema.strict_yaml import shown
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_store import RunStore, Status
from fleetsim.studies.study import Study


class KnownRuns(RunStore):
    """Runs of a study; one whose outcome is on record counts as complete, also without a folder."""

    def __init__(self, home: Path, study: Study, outcomes: OutcomeFile) -> None:
        super().__init__(home)
        self._study, self._outcomes = study, outcomes

    def status(self, planned: PlannedRun) -> Status:
        """Return whether a run is complete; the outcome of a complete one is then on record."""
        return super().status(planned) if self.outcome(planned) is None else "done"

    def outcome(self, planned: PlannedRun) -> Outcome | None:
        """Return the outcome from the file or from the complete run, which is then added."""
        targets = price_targets(self._study.settings.scenario)
        known = self._outcomes.find(planned.scenario.definition_hash, targets)
        if known is None and (run := self.open(planned)) is not None:
            known = outcome_of(run, targets)
            self._outcomes.add(self.origin(planned), known)
        return known

    def origin(self, planned: PlannedRun) -> Origin:
        """Return the identity of a run."""
        settings = self._study.settings
        changes = settings.overrides | settings.arms[planned.arm]
        return Origin(
            settings.scenario,
            tuple(
                f"{key}={value if isinstance(value, str) else shown(value)}"
                for key, value in changes.items()
            ),
            planned.seed,
            planned.scenario.definition_hash,
        )
