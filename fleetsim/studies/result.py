"""Result of a study: its tables, its evidence, its runs, and its page.

result = fleetsim.study("selectors-on-phones", home="runs")
result.verdicts[["condition", "arm", "sentence"]]
result.run(arm="oort", seed=3).time_to_accuracy(0.8)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fleetsim.errors import DataError
from fleetsim.record.saved_run import Run
from fleetsim.studies import evidence
from fleetsim.studies.backends import Backend, LocalProcesses, RemoteTasks
from fleetsim.studies.display import Lines
from fleetsim.studies.execution import Watcher, execute
from fleetsim.studies.run_store import HOME, RunStore
from fleetsim.studies.study import Study, load_study
from fleetsim.studies.tables import StudyTables, tables_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StudyResult:
    """Runs of a study that are complete, and the evidence in them; docs/studies.md has the columns.

    Everything is read at first use, and then kept. Whatever reads a run raises a `DataError` if it
    is damaged or was changed.
    """

    study: Study
    home: Path

    @cached_property
    def tables(self) -> StudyTables:
        """All tables of runs."""
        return tables_of(self.study, RunStore(self.home))

    @property
    def runs(self) -> pd.DataFrame:
        """A row per run, with its status."""
        return self.tables.runs

    @property
    def costs(self) -> pd.DataFrame:
        """A row per complete run, target and currency."""
        return self.tables.costs

    @property
    def accuracies(self) -> pd.DataFrame:
        """A row per complete run and measure of its accuracy."""
        return self.tables.accuracies

    @property
    def curves(self) -> pd.DataFrame:
        """A row per evaluated round of complete runs."""
        return self.tables.curves

    @property
    def ledgers(self) -> pd.DataFrame:
        """A row per complete run, component and energy outcome."""
        return self.tables.ledgers

    @cached_property
    def summaries(self) -> pd.DataFrame:
        """A row per condition, target, currency and arm: the costs over seeds."""
        return evidence.summaries(self.costs, self.study.arms)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """A row per condition, target, currency and arm but the baseline, with a sentence."""
        return evidence.verdicts(
            self.costs,
            self.study.arms,
            self.study.settings.baseline_arm,
            draws_devices=self.study.draws_devices,
        )

    @cached_property
    def differences(self) -> pd.DataFrame:
        """A row per condition, measure and arm but the baseline: the difference of accuracies."""
        return evidence.differences(
            self.accuracies, self.study.arms, self.study.settings.baseline_arm
        )

    def run(self, *, arm: str, seed: int, condition: str = "") -> Run:
        """Return one complete run.

        Raises:
            DataError: the study has no such run, or it is not complete.
        """
        store = RunStore(self.home)
        for planned in self.study.runs:
            if (planned.condition, planned.arm, planned.seed) == (condition, arm, seed):
                found = store.open(planned)
                if found is not None:
                    return found
                raise DataError(f"{planned.name}: is not complete; run the study first")
        raise DataError(
            f"the study {self.study.settings.name} has no run of arm {arm}, seed {seed} and"
            f" condition {condition or '(none)'}"
        )


def study(
    path: str | Path,
    overrides_: Iterable[str] = (),
    *,
    plugin: str | None = None,
    home: str | Path = HOME,
    jobs: int | None = None,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
    on_line: Callable[[str], None] = lambda line: None,
) -> StudyResult:
    """Carry out the runs of a study that are missing, and return the result.

    Args:
        path: study file, or the name of a bundled study.
        overrides_: `KEY.PATH=VALUE` each, which override keys of the study file.
        plugin: `MODULE:CLASS` of a selector of your own, which arms name by its kind.
        home: folder of the runs, which all studies share.
        jobs: runs at a time on this machine, one process each; None: as many as cores.
        executor: any executor that carries out the runs instead, such as that of a Dask cluster; it
            shares nothing with this process.
        watcher: display of the progress.
        on_line: callback with lines of progress, if there is no watcher.

    Raises:
        ScenarioError: the study file or one of its scenarios is wrong.
        DataError: a file is missing or wrong, or a folder cannot be written.
        KeyboardInterrupt: interrupted; complete runs are kept.
    """
    loaded = load_study(path, overrides_, plugin=plugin)
    backend: Backend
    if executor is None:
        backend = LocalProcesses(jobs or os.cpu_count() or 1)
    else:
        backend = RemoteTasks(executor)
    execute(loaded, RunStore(Path(home)), backend, watcher or Lines(on_line))
    return StudyResult(loaded, Path(home))
