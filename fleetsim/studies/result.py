"""Result of a study: its tables, its evidence, its runs, and its page.

result = fleetsim.study("selectors-on-phones", home="runs")
result.verdicts[["condition", "arm", "sentence"]]
result.run(arm="oort", seed=3).time_to_accuracy(0.8)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.host.notebook import interruptible
from fleetsim.host.turns import Environment, turn
from fleetsim.learning.global_generators import GlobalGenerators
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.record import atomic_files
from fleetsim.record.saved_run import Run
from fleetsim.report import csv_text
from fleetsim.schema.python_data import Overrides, changes_of
from fleetsim.studies import evidence
from fleetsim.studies.backends import Backend, LocalProcesses, RemoteTasks
from fleetsim.studies.display import Lines, watch_from_python
from fleetsim.studies.execution import Watcher, execute
from fleetsim.studies.mixed_platforms import mixtures
from fleetsim.studies.run_store import HOME, RunStore
from fleetsim.studies.run_tables import RunTables, tables_of
from fleetsim.studies.settings import WHOLE_RUN, StudySettings
from fleetsim.studies.study import Study, load_study
from fleetsim.studies.study_tables import StudyHeader, StudyTables
from fleetsim.user import PluginNames

if TYPE_CHECKING:
    import pandas as pd

_CSV = ("runs", "costs", "accuracies", "summaries", "verdicts", "differences")
"""Tables that are written as files."""


@dataclass(frozen=True, repr=False)
class StudyResult:
    """Runs of a study that are complete, and the evidence in them; docs/studies.md has the columns.

    Everything is read at first use, and then kept. Whatever reads a run raises a `DataError` if it
    is damaged or was changed.
    """

    study: Study
    home: Path

    @cached_property
    def tables(self) -> RunTables:
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
            doubtful=self.study.doubtful_conditions,
        )

    @cached_property
    def differences(self) -> pd.DataFrame:
        """A row per condition, measure and arm but the baseline: the difference of accuracies."""
        return evidence.differences(
            self.accuracies, self.study.arms, self.study.settings.baseline_arm
        )

    def write_report(
        self, folder: str | Path | None = None, *, formats: Iterable[str] = (), latex: bool = False
    ) -> Path:
        """Write the page `study.html` and the tables as CSV; return the page.

        Args:
            folder: folder to write to; None: that of the study in its home.
            formats: formats of the figures besides the page, of svg, pdf and png.
            latex: write tables for LaTeX too.

        Raises:
            DataError: a run is damaged, or a file cannot be written.
        """
        # Imported here: the page needs matplotlib, which runs do not.
        from fleetsim.studies.page.study_page import write_page  # noqa: PLC0415

        target = RunStore(self.home).study_folder(self.study.settings.name)
        if folder is not None:
            target = paths.local(folder)
        page = write_page(self._page_tables(), self._header(), target, formats=formats, latex=latex)
        for name in _CSV:
            frame: pd.DataFrame = getattr(self, name)
            atomic_files.write(target / f"{name}.csv", csv_text.encoded(frame))
        return page

    def __repr__(self) -> str:
        return f"<StudyResult {self.study.settings.name} in {self.home}>"

    def _repr_html_(self) -> str:
        """Return the summary that a notebook shows."""
        # Imported here: it needs matplotlib, which runs do not.
        from fleetsim.studies.page import study_card  # noqa: PLC0415

        return study_card.html(self._page_tables(), self._header())

    def _page_tables(self) -> StudyTables:
        return StudyTables(*(getattr(self, field.name) for field in fields(StudyTables)))

    def _header(self) -> StudyHeader:
        study = self.study
        settings = study.settings
        return StudyHeader(
            name=settings.name,
            question=settings.question,
            arms=study.arms,
            baseline=settings.baseline_arm,
            seeds=tuple(settings.seeds),
            targets=tuple(target.label for target in settings.all_targets) or (WHOLE_RUN,),
            factors={
                key: tuple(dict.fromkeys(condition.levels[key] for condition in study.conditions))
                for key in study.factors
            },
            conditions=tuple(condition.label for condition in study.conditions),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        settings = self.study.settings
        doubtful = sorted(filter(None, self.study.doubtful_conditions))
        if self.study.doubtful_conditions:
            where = f" (conditions: {'; '.join(doubtful)})" if doubtful else ""
            yield (
                "Every seed draws other errors of the devices' figures (fleet.uncertainty), the"
                f" same for all arms: a seed is a plausible fleet{where}."
            )
        yield from mixtures(self.study, RunStore(self.home))
        if settings.different_worlds:
            yield "Arms differ in task or fleet too, and not only in their server."
        if not settings.train:
            yield "Nothing was trained: times and energy of whole runs are compared."

    def run(self, *, arm: str, seed: int, condition: str = "") -> Run:
        """Return one complete run.

        Raises:
            DataError: the study has no such run, or it is not complete.
        """
        store = RunStore(self.home)
        for planned in self.study.runs:
            if (planned.condition, planned.arm, planned.seed) == (condition, arm, seed):
                result = store.open(planned)
                if result is not None:
                    return result
                raise DataError(f"{planned.name}: is not complete; run the study first")
        raise DataError(
            f"the study {self.study.settings.name} has no run of arm {arm}, seed {seed} and"
            f" condition {condition or '(none)'}"
        )


def study(
    path: str | Path | Mapping[str, Any],
    overrides_: Overrides = (),
    *,
    plugin: PluginNames = None,
    home: str | Path = HOME,
    jobs: int | None = None,
    executor: Executor | None = None,
    timeout_s: float | None = None,
    results_cache: bool = True,
    progress: bool | None = None,
    watcher: Watcher | None = None,
    on_line: Callable[[str], None] | None = None,
    **keys: Any,
) -> StudyResult:
    """Carry out the runs of a study that are missing, and return the result.

    Args:
        path: study file, the name of a bundled study, or a mapping with the keys of one.
        overrides_: `"KEY.PATH=VALUE"` or a list of them, or values by key path, which override keys
            of the study file.
        plugin: `MODULE:NAME` of a part of your own, or several, which arms name by their kinds.
        home: folder of the runs, which all studies share.
        jobs: runs at a time on this machine, one process each; None: as many as cores.
        executor: any executor that carries out the runs instead, such as that of a Dask cluster; it
            shares nothing with this process.
        timeout_s: host time in which an attempt at a run must end; otherwise it has failed, and the
            others go on. An executor's worker is not freed from such a run. None: no limit.
        results_cache: find results of training that are known in `home/results-cache`, as of runs
            whose worlds differ but not their choices. It changes the time alone.
        progress: show the progress in the notebook, or on stderr. None: where a person sees it, in
            a notebook or on a terminal, unless `watcher` or `on_line` is given.
        watcher: display of the progress.
        on_line: callback with lines of progress, if there is no watcher.
        keys: further overrides of keys of the study file, such as `seeds=[1, 2]`.

    Raises:
        ScenarioError: the study file or one of its scenarios is wrong.
        DataError: a file is missing or wrong, or a folder cannot be written.
        KeyboardInterrupt: interrupted; complete runs are kept.
        TypeError: a keyword is no argument and names no key of a study file.
    """
    changes = changes_of(overrides_, keys, keys=StudySettings.model_fields, call=study)
    # Not for the runs: an executor of threads makes them in turns of their own.
    with turn(Environment, GlobalGenerators, TorchSettings):
        loaded = load_study(path, changes, plugin=plugin)
    backend: Backend
    if executor is None:
        backend = LocalProcesses(jobs or os.cpu_count() or 1)
    else:
        backend = RemoteTasks(executor)
    store = RunStore(paths.local(home), caches_results=results_cache)
    if watcher is None and on_line is not None:
        watcher = Lines(on_line)
    is_shown = watcher is None if progress is None else progress
    with (
        interruptible("complete runs are kept; call it again for the others"),
        watch_from_python(is_forced=progress is True, is_shown=is_shown) as display,
    ):
        execute(loaded, store, backend, watcher or display, timeout_s=timeout_s)
    return StudyResult(loaded, store.home)
