"""Search: batches of trials are chosen, run seed by seed, and ended early if they are hopeless.

Trials of a batch are run together. They are compared with the best trial of the batches before
after 1, 2, 4, 8 ... seeds, so the number of processes changes no trial.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fleetsim.errors import DataError, ScenarioError
from fleetsim.quoting import one_line
from fleetsim.record import atomic_files
from fleetsim.studies.backends import Backend, LocalProcesses
from fleetsim.studies.costs import costs
from fleetsim.studies.execution import Watcher, execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.search import trials as saved
from fleetsim.studies.search.sampling import next_batch
from fleetsim.studies.search.search_file import Search
from fleetsim.studies.search.trials import SeedCosts, Trial, best_of
from fleetsim.studies.study import Study

Results = Mapping[str, Sequence[SeedCosts] | str]
"""Costs of the seeds by arm, or the reason of a failure."""
Measure = Callable[[Study], Results]
"""Carries out the runs of a study whose arms are trials."""


def make_trials(
    search: Search, folder: Path, measure: Measure, on_trial: Callable[[Trial], None]
) -> list[Trial]:
    """Make the trials that are missing, and return all; `folder` has those made before.

    `on_trial` is called with every new one. Trial 0 is the scenario as it is, a batch of its own.
    """
    settings, identity = search.settings, search.identity
    trials = saved.read(folder, identity)
    atomic_files.make_folder(folder, hint="choose another place with --home")
    while len(trials) < settings.trials:
        first = 1 + (len(trials) - 1) // settings.batch * settings.batch if trials else 0
        # The whole batch is chosen, even if the last ones are not asked for: they may be later.
        chosen = next_batch(search, trials[:first]) if trials else [{}]
        numbers = range(len(trials), min(first + len(chosen), settings.trials))
        batch = [Trial(number=each, parameters=chosen[each - first]) for each in numbers]
        best = best_of(trials[:first], settings.objective)
        for trial in _carried_out(batch, search, best, measure):
            on_trial(trial)
            trials.append(trial)
        saved.write(folder, identity, trials)
    return trials[: settings.trials]


def _carried_out(
    batch: Sequence[Trial], search: Search, best: Trial | None, measure: Measure
) -> list[Trial]:
    """Return trials with their seeds: all of them, or the first ones after which they end."""
    objective, ratio = search.settings.objective, search.settings.prune_ratio
    done = {f"trial {trial.number}": trial for trial in batch}
    studies: dict[str, Study] = {}
    for name, trial in done.items():
        try:
            studies[name] = search.trial(name, search.changes(trial.parameters))
        except (ScenarioError, DataError) as fault:
            reason = one_line(fault.faults[0])
            done[name] = trial.model_copy(update={"state": "failed", "reason": reason})
    seeds, first = search.scenario.settings.seeds, 0
    looks = [2**power for power in range((len(seeds) - 1).bit_length()) if ratio is not None]
    for last in (*looks, len(seeds)):
        if not studies:
            break
        results = measure(search.joined(list(studies.values()), seeds[first:last]))
        for name, result in results.items():
            trial = done[name]
            if isinstance(result, str):
                update: dict[str, object] = {"state": "failed", "seeds": (), "reason": result}
            else:
                state = "complete" if last == len(seeds) else "pruned"
                update = {"state": state, "seeds": (*trial.seeds, *result)}
            done[name] = trial = trial.model_copy(update=update)
            if trial.state != "pruned" or trial.is_clearly_worse(best, objective, ratio or 1.0):
                del studies[name]
        first = last
    return list(done.values())


class KeptProcesses(LocalProcesses):
    """Processes that stay for the runs of the next seeds."""

    def close(self) -> None:
        """End the runs under way, if there are any; processes without one stay until `end`."""
        self._collect()
        if self._busy:
            super().close()

    def end(self) -> None:
        """End all processes."""
        super().close()


def measured_by_runs(
    search: Search,
    store: RunStore,
    backend: Backend,
    watch: Callable[[], AbstractContextManager[Watcher]],
    timeout_s: float | None = None,
) -> Measure:
    """Return the measure that carries out runs as those of a study, and reads their costs."""
    metrics = search.settings.objective.metrics

    def measure(study: Study) -> Results:
        with watch() as watcher:
            failures = execute(study, store, backend, watcher, timeout_s=timeout_s).failures
        results: dict[str, list[SeedCosts] | str] = {arm: [] for arm in study.arms}
        for planned in study.runs:
            so_far, run = results[planned.arm], store.open(planned)
            if isinstance(so_far, str):
                continue
            if planned.key in failures or run is None:
                results[planned.arm] = f"seed {planned.seed}: {failures.get(planned.key, 'no run')}"
                continue
            every = costs(run, study.settings.all_targets, study.prices, None)
            spent = {each.metric: each for each in every if each.cost > 0.0}
            if not spent.keys() >= set(metrics):
                which = " or ".join(metrics)
                results[planned.arm] = f"seed {planned.seed}: has no {which}, or 0 of them"
                continue
            values = tuple(spent[metric].cost for metric in metrics)
            is_reached = spent[metrics[0]].is_reached
            so_far.append(SeedCosts(seed=planned.seed, costs=values, is_reached=is_reached))
        return results

    return measure
