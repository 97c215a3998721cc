"""Choice of the parameters of trials, by the tree-structured Parzen estimator of Optuna.

The estimator (Bergstra et al., "Algorithms for hyper-parameter optimization", NIPS 2011) draws
values that are frequent among the better trials and rare among the others; its first ten trials
are random. The parameters of a batch depend on the trials before it, the sampler seed and the
number of the batch alone, so that a search which was killed continues as it would have.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

from fleetsim import rng
from fleetsim.errors import ScenarioError
from fleetsim.schema import faults
from fleetsim.studies.search.search_file import Search, SearchedKey, Value
from fleetsim.studies.search.trials import Trial


def domains(search: Search) -> dict[str, Any]:
    """Return Optuna's distributions by key; whatever Optuna refuses is a fault of the file."""
    try:
        from optuna import distributions  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        source = search.document.source
        raise ScenarioError(
            f"{source}: a search needs Optuna; install it with: pip install 'fleetsim[optimize]'"
        ) from None
    result: dict[str, Any] = {}
    for key, each in search.settings.search.items():
        low, high, step = each.low, each.high, each.step
        try:
            if each.choices is not None:
                numbers = [str(number) for number in range(len(each.choices))]
                result[key] = distributions.CategoricalDistribution(numbers)
            elif isinstance(low, int) and isinstance(high, int) and not isinstance(step, float):
                result[key] = distributions.IntDistribution(low, high, each.log, step or 1)
            else:
                result[key] = distributions.FloatDistribution(low, high, each.log, step)
        except ValueError as fault:
            line = faults.line(search.document, ("search", key), f"{fault}".rstrip("."))
            raise ScenarioError(line) from None
    return result


def next_batch(search: Search, trials: Sequence[Trial]) -> list[dict[str, Value]]:
    """Return the parameters of the batch after these trials, which are whole batches."""
    import optuna  # noqa: PLC0415 - an extra

    settings, distributions = search.settings, domains(search)
    seed = rng.torch_seed(settings.sampler_seed, "search", len(trials)) >> 31
    with warnings.catch_warnings():
        # An argument may be experimental in one version and not in the next one.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(sampler=sampler)
        for trial in trials[1:]:
            study.enqueue_trial(dict(trial.parameters))
            asked = study.ask(distributions)
            if trial.state == "failed":
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
                continue
            for name, excess in trial.excess(settings.objective).items():
                asked.set_constraint(name, excess)
            cost = math.log(trial.costs()[0])
            asked.report(cost, step=len(trial.seeds))
            if trial.state == "pruned":
                study.tell(asked, state=optuna.trial.TrialState.PRUNED)
            else:
                study.tell(asked, cost)
        drawn = [study.ask(distributions).params for _ in range(settings.batch)]
    finally:
        optuna.logging.set_verbosity(verbosity)
    keys = settings.search
    return [{key: _rounded(keys[key], value) for key, value in each.items()} for each in drawn]


def _rounded(key: SearchedKey, value: Value) -> Value:
    """Return a number of a range with few digits, for people to read."""
    if not isinstance(value, float):
        return value
    low, high = key.ends
    few: Value = min(max(float(f"{value:.{4 if key.step is None else 12}g}"), low), high)
    return few
