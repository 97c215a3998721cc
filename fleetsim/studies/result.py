"""Result of a study: its tables, its evidence, its runs, and its page.

result = fleetsim.study("selectors-on-phones", home="runs")
result.verdicts[["condition", "arm", "sentence"]]
result.run(arm="oort", seed=3).time_to_accuracy(0.8)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
from fleetsim.studies.page import findings
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables
from fleetsim.studies.run_store import HOME, RunStore
from fleetsim.studies.run_tables import RunTables, tables_of
from fleetsim.studies.settings import WHOLE_RUN, Metric, StudySettings
from fleetsim.studies.study import Study, load_study
from fleetsim.studies.study_setup import mixtures, setup_block
from fleetsim.user import PluginNames

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

_CSV = ("runs", "costs", "accuracies", "summaries", "verdicts", "differences")
"""Tables that are written as files."""
_SUMMARY = ("num_seeds", "num_reached", "mean", "std", "median", "restricted_mean")
_VERDICT = ("baseline", "num_pairs", "ratio", "low", "high", "p_holm", "kind", "sentence")
"""Columns of summaries and verdicts for scripts."""


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
        """A row per complete run, target and metric."""
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
        """A row per condition, target, metric and arm: the costs over seeds."""
        return evidence.summaries(self.costs, self.study.arms)

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """A row per condition, target, metric and arm but the baseline, with a sentence.

        In a sweep, a study of one arm, the levels are compared: they stand in the column `arm`.
        """
        doubtful = self.study.doubtful_conditions
        if self.study.settings.is_sweep:
            doubtful = frozenset([""] if doubtful else [])
        return evidence.verdicts(
            self._compared(self.costs),
            self._arms,
            self._baseline,
            margin=self.study.settings.equivalence_margin,
            doubtful=doubtful,
        )

    @cached_property
    def differences(self) -> pd.DataFrame:
        """A row per condition, measure and arm but the baseline: the difference of accuracies.

        Levels of a sweep are compared with `baseline_level`, or with the first.
        """
        baseline = self._baseline or self._arms[0]
        return evidence.differences(self._compared(self.accuracies), self._arms, baseline)

    @property
    def _arms(self) -> tuple[str, ...]:
        """Arms, or the levels of a sweep, that are compared."""
        return self.study.levels if self.study.settings.is_sweep else self.study.arms

    @property
    def _baseline(self) -> str | None:
        study = self.study
        return study.baseline_level if study.settings.is_sweep else study.settings.baseline_arm

    def _compared(self, frame: pd.DataFrame) -> pd.DataFrame:
        return evidence.by_level(frame) if self.study.settings.is_sweep else frame

    def sentences(self) -> list[str]:
        """Return all verdicts as sentences, below the conditions."""
        (tables, header), lines = self._page(), []
        first, others = findings.groups(tables, header)
        for condition in header.conditions:
            every = [
                sentence
                for group in (*first, *others)
                if group.condition == condition
                for sentence in (group.summary, *(text for *_, text in group.verdicts))
            ]
            lines += [f"{condition}:"] if condition else []
            # Where no run reached a target, the sentences of all metrics are the same.
            lines += [f"- {sentence}" for sentence in dict.fromkeys(filter(None, every))]
        return lines

    def answers(self) -> list[str]:
        """Return the verdicts on the primary outcome in one sentence for each condition."""
        return findings.answers(*self._page())

    def terminal_tables(self) -> Iterator[tuple[str, Table]]:
        """Yield a heading and a table of verdicts for each condition and target."""
        # Imported here: the page needs matplotlib, which runs do not.
        from fleetsim.studies.page import terminal_tables  # noqa: PLC0415

        return terminal_tables.tables_of(*self._page())

    def write_report(
        self,
        folder: str | Path | None = None,
        *,
        formats: Iterable[str] = (),
        dpi: int = 300,
        width_in: float = 3.5,
        latex: bool | Literal["std"] = False,
    ) -> Path:
        """Write the page `study.html` and the tables as CSV; return the page.

        Args:
            folder: folder to write to; None: that of the study in its home.
            formats: formats of the figures besides the page, of svg, pdf and png.
            dpi: dots per inch of figures in PNG.
            width_in: width of figures; a column of a paper has about 3.5 in, two have 7.
            latex: write tables for LaTeX too, with intervals of means or standard deviations.

        Raises:
            DataError: a run is damaged, or a file cannot be written.
        """
        # Imported here: the page needs matplotlib, which runs do not.
        from fleetsim.studies.page.study_page import write_page  # noqa: PLC0415

        target = RunStore(self.home).study_folder(self.study.settings.name)
        if folder is not None:
            target = paths.local(folder)
        page = write_page(
            *self._page(), target, formats=formats, dpi=dpi, width_in=width_in, latex=latex
        )
        self.study.save(target)
        for name in _CSV:
            frame: pd.DataFrame = getattr(self, name)
            atomic_files.write(target / f"{name}.csv", csv_text.encoded(frame))
        return page

    def record(self) -> dict[str, Any]:
        """Return the evidence for scripts, in SI; docs/commands.md defines every key."""
        settings, runs = self.study.settings, self.runs

        def rows(frame: pd.DataFrame, columns: tuple[str, ...]) -> list[dict[Hashable, Any]]:
            return frame[["condition", "target", "metric", "arm", *columns]].to_dict("records")

        return {
            "name": settings.name,
            "question": settings.question,
            "home": self.home,
            "arms": self._arms,
            "baseline": self._baseline,
            "seeds": settings.seeds,
            "num_runs": len(runs),
            "num_done": int((runs["status"] == "done").sum()),
            "summaries": rows(self.summaries, _SUMMARY),
            "verdicts": rows(self.verdicts, _VERDICT),
        }

    def __repr__(self) -> str:
        return f"<StudyResult {self.study.settings.name} in {self.home}>"

    def _repr_html_(self) -> str:
        """Return the summary that a notebook shows."""
        # Imported here: it needs matplotlib, which runs do not.
        from fleetsim.studies.page import study_card  # noqa: PLC0415

        return study_card.html(*self._page())

    def _page(self) -> tuple[StudyTables, StudyHeader]:
        frames = {field.name: getattr(self, field.name) for field in fields(StudyTables)}
        compared = {name: self._compared(frame) for name, frame in frames.items()}
        return StudyTables(**compared | {"verdicts": self.verdicts}), self._header()

    def _header(self) -> StudyHeader:
        study = self.study
        settings = study.settings
        return StudyHeader(
            name=settings.name,
            question=settings.question,
            arms=self._arms,
            baseline=self._baseline,
            seeds=tuple(settings.seeds),
            targets=tuple(target.label for target in settings.all_targets) or (WHOLE_RUN,),
            target_accuracies=tuple(target.accuracy for target in settings.all_targets),
            factors={
                key: tuple(dict.fromkeys(condition.levels[key] for condition in study.conditions))
                for key in settings.vary
            },
            conditions=("",) if settings.is_sweep else study.levels,
            primary=self._primary,
            sweep_arm=study.arms[0] if settings.is_sweep else None,
            notes=tuple(self._notes()),
            setup=setup_block(study, RunStore(self.home)),
        )

    @property
    def _primary(self) -> tuple[str, Metric] | None:
        settings, primary = self.study.settings, self.study.settings.primary
        if primary is None:
            return None
        labels = [
            target.label
            for target in settings.all_targets
            if primary.target in (None, target.accuracy)
        ]
        return (labels or [WHOLE_RUN])[-1], primary.metric

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
    backend: Backend = LocalProcesses(jobs) if executor is None else RemoteTasks(executor)
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
