"""Search: batches of trials are chosen, run seed by seed, and ended early if they are hopeless.

Trials of a batch are run together. They are compared with the best trial of the batches before
after 1, 2, 4, 8 ... seeds, and the clearly worse ones end there. So the number of processes
changes no trial.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from pathlib import Path

from fleetsim.errors import DataError, ScenarioError
from fleetsim.quoting import one_line
from fleetsim.record import atomic_files
from fleetsim.record.run_folder import acquired
from fleetsim.scenario import Scenario
from fleetsim.studies.backends import Backend, LocalProcesses
from fleetsim.studies.costs import costs
from fleetsim.studies.execution import Watcher, execute
from fleetsim.studies.run_store import ELSEWHERE, RunStore
from fleetsim.studies.search.sampling import next_batch
from fleetsim.studies.search.space import Space
from fleetsim.studies.search.trials import Journal, SeedCosts, Trial, best_of, is_clearly_worse
from fleetsim.studies.settings import StudySettings
from fleetsim.studies.study import Study, StudyCondition

Results = Mapping[int, Sequence[SeedCosts] | str]
"""Costs of the seeds by the number of the trial, or the reason of a failure."""
Measure = Callable[[Mapping[int, Scenario], Sequence[int]], Results]
"""Runs scenarios, by the number of their trials, with some seeds."""


def search(
    space: Space,
    folder: Path,
    measure: Measure,
    *,
    num_trials: int,
    on_trial: Callable[[Trial, Sequence[Trial]], None] = lambda trial, before: None,
) -> list[Trial]:
    """Make the trials that are missing, and return all; `folder` has those made before.

    `on_trial` is called with every new trial, and all trials before it.
    """
    journal, size = Journal(folder, space.identity), space.settings.batch
    with _locked(folder):
        trials = journal.read()
        while len(trials) < num_trials:
            before = trials[: len(trials) // size * size]
            # The whole batch is chosen, even if fewer trials were asked for: more of it may be
            # asked for later.
            batch = next_batch(space, before)[: num_trials - len(before)]
            numbers = range(len(trials), len(before) + len(batch))
            begun = [
                Trial(number=number, parameters=batch[number - len(before)], state="pruned")
                for number in numbers
            ]
            for trial in _carried_out(
                begun, space, best_of(before, space.settings.objective), measure
            ):
                on_trial(trial, tuple(trials))
                trials.append(trial)
            journal.write(trials)
    return trials[:num_trials]


def _carried_out(
    begun: Sequence[Trial], space: Space, best: Trial | None, measure: Measure
) -> list[Trial]:
    """Return trials with their seeds, until the last one or the first after which they end."""
    settings, done = space.settings, {trial.number: trial for trial in begun}
    scenarios: dict[int, Scenario] = {}
    for trial in begun:
        try:
            scenarios[trial.number] = space.scenario(trial.parameters)
        except (ScenarioError, DataError) as fault:
            done[trial.number] = _failed(trial, one_line(fault.faults[0]))
    first = 0
    for last in _looks(len(settings.seeds), prunes=settings.prune_ratio is not None):
        results = measure(scenarios, settings.seeds[first:last]) if scenarios else {}
        for number, result in results.items():
            trial = done[number]
            if isinstance(result, str):
                trial = _failed(trial, result)
            else:
                state = "complete" if last == len(settings.seeds) else "pruned"
                seeds = (*trial.seeds, *result)
                trial = trial.model_copy(update={"seeds": seeds, "state": state})
            done[number] = trial
            if trial.state != "pruned" or is_clearly_worse(
                trial, best, settings.objective, settings.prune_ratio
            ):
                del scenarios[number]
        first = last
    return list(done.values())


def _looks(num_seeds: int, *, prunes: bool) -> Iterator[int]:
    """Yield numbers of seeds after which trials are compared; the last one is all.

    >>> list(_looks(5, prunes=True)), list(_looks(5, prunes=False))
    ([1, 2, 4, 5], [5])
    """
    if prunes:
        yield from takewhile(lambda num: num < num_seeds, (2**power for power in range(64)))
    yield num_seeds


def _failed(trial: Trial, reason: str) -> Trial:
    return trial.model_copy(update={"state": "failed", "seeds": (), "reason": reason})


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from making the trials of the same search."""
    atomic_files.make_inner_folder(folder, hint=ELSEWHERE)
    lock = acquired(folder / ".search.lock", hint=ELSEWHERE)
    if lock is None:
        raise DataError(f"{folder}: another process makes this search; wait, or {ELSEWHERE}")
    try:
        yield
    finally:
        lock.release()


class SearchStore(RunStore):
    """Runs of studies and searches, which share them, and the folders of searches."""

    def study_folder(self, name: str) -> Path:
        """Return the folder of a search, which need not exist."""
        return self.home / "searches" / name


class KeptProcesses(LocalProcesses):
    """Processes that stay for the runs of the next seeds, unless they are interrupted."""

    def close(self) -> None:
        """End the runs under way; processes without one stay until `end`."""
        self._collect()
        if self._busy:
            super().close()

    def end(self) -> None:
        """End all processes."""
        super().close()


def measured_by_runs(
    space: Space,
    store: SearchStore,
    backend: Backend,
    watch: Callable[[], AbstractContextManager[Watcher]],
    *,
    timeout_s: float | None = None,
) -> Measure:
    """Return the measure that carries out runs, as those of a study, and reads their costs."""
    objective = space.settings.objective

    def measure(scenarios: Mapping[int, Scenario], seeds: Sequence[int]) -> Results:
        names = {f"trial {number}": number for number in scenarios}
        study = _study_of(space, {f"trial {n}": each for n, each in scenarios.items()}, seeds)
        with watch() as watcher:
            failures = execute(study, store, backend, watcher, timeout_s=timeout_s).failures
        results: dict[int, list[SeedCosts] | str] = {number: [] for number in scenarios}
        for planned in study.runs:
            number = names[planned.arm]
            so_far = results[number]
            if isinstance(so_far, str):
                continue
            if planned.key in failures:
                results[number] = f"seed {planned.seed}: {failures[planned.key]}"
                continue
            run = store.open(planned)
            assert run is not None
            spent = {
                metric: (cost, is_reached)
                for _, metric, cost, is_reached in costs(run, objective.targets, space.prices, None)
            }
            values = [spent.get(metric, (0.0, False)) for metric in objective.metrics]
            if min(cost for cost, _ in values) <= 0.0:
                which = " or ".join(objective.metrics)
                results[number] = f"seed {planned.seed}: has no costs in {which}, or they are 0"
            else:
                so_far.append(
                    SeedCosts(
                        seed=planned.seed,
                        costs=tuple(cost for cost, _ in values),
                        is_reached=all(reached for _, reached in values),
                    )
                )
        return results

    return measure


def _study_of(space: Space, arms: Mapping[str, Scenario], seeds: Sequence[int]) -> Study:
    """Return the runs of some trials as a study, whose scenarios have been checked."""
    settings = space.settings
    of_arms = StudySettings(
        name=settings.name,
        scenario=space.base,
        train=settings.train,
        arms={name: {} for name in arms},
        seeds=list(seeds),
    )
    one = (StudyCondition(label="", levels={}, overrides=()),)
    cells = {("", name): scenario for name, scenario in arms.items()}
    return Study(of_arms, space.source, space.plugins, space.prices, one, cells)
