"""Choice of the parameters of trials, by the tree-structured Parzen estimator of Optuna.

The estimator (Bergstra et al., "Algorithms for hyper-parameter optimization", NIPS 2011) draws
values that are frequent among the better trials and rare among the others; its first ten trials
are random. The parameters of a batch depend on the trials of the batches before it, the sampler
seed and the number of the batch alone, so that a search which was killed continues as it would
have.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

from fleetsim import rng
from fleetsim.errors import ScenarioError
from fleetsim.studies.search.settings import SearchedKey
from fleetsim.studies.search.space import Parameters, Space, Value, ends
from fleetsim.studies.search.trials import Trial

_LARGEST_SEED = 2**32


def require_optuna(source: str) -> str:
    """Return the version of Optuna; the message without it names the search file."""
    try:
        import optuna  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ScenarioError(
            f"{source}: a search needs Optuna; install it with: pip install 'fleetsim[optimize]'"
        ) from None
    return str(optuna.__version__)


def next_batch(space: Space, trials: Sequence[Trial]) -> list[Parameters]:
    """Return the parameters of the batch after these trials, which are whole batches.

    The first trial of a search is the scenario as it is, if its values are in the ranges.
    """
    import optuna  # noqa: PLC0415 - an extra

    settings = space.settings
    number = len(trials) // settings.batch
    seed = int(rng.stream(settings.sampler_seed, "search", number).integers(_LARGEST_SEED))
    with warnings.catch_warnings():
        # Which arguments are experimental differs between versions.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(sampler=sampler)
        domains = {
            key: _domain(each, is_whole=key in space.whole) for key, each in settings.search.items()
        }
        for trial in trials:
            study.enqueue_trial(dict(trial.parameters))
            _tell(study, study.ask(domains), trial, space)
        if not trials and (own := space.own) is not None:
            study.enqueue_trial(dict(own))
        asked = [study.ask(domains).params for _ in range(settings.batch)]
    finally:
        optuna.logging.set_verbosity(verbosity)
    return [
        {key: _readable(each, values[key]) for key, each in settings.search.items()}
        for values in asked
    ]


def _domain(key: SearchedKey, *, is_whole: bool) -> Any:
    from optuna import distributions  # noqa: PLC0415 - an extra

    if key.choices is not None:
        return distributions.CategoricalDistribution(ends(key))
    low, high = ends(key)
    if is_whole:
        return distributions.IntDistribution(low, high, log=key.log, step=key.step or 1)
    return distributions.FloatDistribution(float(low), float(high), log=key.log, step=key.step)


def _tell(study: Any, asked: Any, trial: Trial, space: Space) -> None:
    """Tell the sampler the logarithm of the cost of a trial, and by how much it breaks limits."""
    from optuna.trial import TrialState  # noqa: PLC0415 - an extra

    if trial.state == "failed":
        study.tell(asked, state=TrialState.FAIL)
        return
    for name, excess in trial.excess(space.settings.objective).items():
        asked.set_constraint(name, excess)
    cost = math.log(trial.costs()[0])
    if trial.state == "pruned":
        asked.report(cost, step=len(trial.seeds))
        study.tell(asked, state=TrialState.PRUNED)
    else:
        study.tell(asked, cost)


def _readable(key: SearchedKey, value: Value) -> Value:
    """Return a number of a range to four digits, or on its grid to twelve, for people to read."""
    if not isinstance(value, float):
        return value
    low, high = ends(key)
    rounded = float(f"{value:.{4 if key.step is None else 12}g}")
    return min(max(rounded, float(low)), float(high))
