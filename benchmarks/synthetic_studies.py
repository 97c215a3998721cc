"""False verdicts, coverage and power of the statistics of studies, on synthetic costs.

    python -m benchmarks.synthetic_studies

Prints the tables of docs/evidence/statistics.md. The costs of a study are log-normal:
ln cost = effect of the arm + effect of the world (shared by all arms of a seed) + noise. With
censoring, all runs end at one cost, which a share of the runs of baseline and arm exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray
from fleetsim.studies.settings import EQUIVALENCE_MARGIN
from fleetsim.studies.statistics.bootstrap import bca_interval
from fleetsim.studies.statistics.comparison import ALPHA
from fleetsim.studies.statistics.paired_costs import restricted_log_ratios
from fleetsim.studies.statistics.rank_tests import least_p
from fleetsim.studies.statistics.t_test import (
    equivalence_p,
    mean_and_error,
    seeds_needed,
    t_interval,
    t_test,
)
from fleetsim.studies.statistics.verdict import holm

NUM_STUDIES = 20_000
SEEDS = (3, 5, 10, 20)
_NUM_TRUTH = 2_000_000
_NUM_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Law:
    """Distribution of the costs of one study."""

    effects: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    """Of the arms on ln cost; the first arm is the baseline."""

    world_std: float = 0.3
    noise_std: float = 0.2

    censored: float = 0.0
    """Share of the runs of the first two arms that never reach the target (`end_factor` 1)."""

    end_std: float = 0.0
    """Spread of ln of the cost at which runs end: 0 if a run ends at a set cost."""

    end_factor: float = 1.0
    """Cost at which runs of the other arms end, over that of the baseline's runs: an arm whose
    rounds cost less ends cheaper after as many rounds."""

    grid: float = 0.0
    """Costs are rounded up to multiples of it: a run is evaluated every few rounds. Median 1."""

    def draw(
        self, num_studies: int, num_seeds: int, draws: np.random.Generator
    ) -> tuple[FloatArray, BoolArray]:
        """Return costs and whether they reached the target: [arms, studies, seeds]."""
        shape = (len(self.effects), num_studies, num_seeds)
        world = draws.normal(0.0, self.world_std, shape[1:])
        noise = draws.normal(0.0, self.noise_std, shape)
        cost = np.exp(np.array(self.effects)[:, None, None] + world + noise)
        if self.grid > 0.0:
            cost = np.ceil(cost / self.grid) * self.grid
        end = self._end(draws) * np.exp(draws.normal(0.0, self.end_std, shape))
        end[1:] *= self.end_factor
        return np.minimum(cost, end), cost <= end

    def _end(self, draws: np.random.Generator) -> float:
        if self.censored == 0.0:
            return np.inf
        uncensored = Law(self.effects[:2], self.world_std, self.noise_std, grid=self.grid)
        cost, _ = uncensored.draw(200_000, 1, draws)
        spread = draws.normal(0.0, self.end_std, cost.shape)
        return float(np.quantile(cost / np.exp(spread), 1.0 - self.censored))

    def log_ratios(
        self, num_studies: int, num_seeds: int, draws: np.random.Generator
    ) -> FloatArray:
        """Return the log-ratios of the arms other than the baseline: [arms - 1, studies, seeds]."""
        return log_ratios_of(*self.draw(num_studies, num_seeds, draws))


def log_ratios_of(cost: FloatArray, is_reached: BoolArray) -> FloatArray:
    """Return the log-ratios of all arms to the first: [arms - 1, studies, seeds]."""
    baseline = np.broadcast_to(cost[0], cost[1:].shape)
    baseline_reached = np.broadcast_to(is_reached[0], cost[1:].shape)
    return restricted_log_ratios(cost[1:], is_reached[1:], baseline, baseline_reached)


def adjusted_p(log_ratio: FloatArray, num_seeds: int) -> FloatArray:
    """Return the adjusted p-values of the arms of each study: [studies, arms - 1]."""
    p = t_test(log_ratio)
    # All ratios are the same but not 1: the exact test by ranks, as in `compare`.
    return holm(np.where(np.isnan(p), least_p(num_seeds), p).T)


def false_verdicts(law: Law, num_seeds: int, num_studies: int = NUM_STUDIES) -> float:
    """Return the share of studies with a verdict other than undecided, for arms without effect."""
    log_ratio = law.log_ratios(num_studies, num_seeds, _draws("null", num_seeds))
    return float(np.mean(np.any(adjusted_p(log_ratio, num_seeds) <= ALPHA, axis=1)))


def false_equivalences(law: Law, num_seeds: int, num_studies: int = NUM_STUDIES) -> float:
    """Return the share of studies in which an arm is said to be equal within the margin.

    The arms' costs differ from the baseline's by the margin, where every such claim is false.
    """
    log_ratio = law.log_ratios(num_studies, num_seeds, _draws("equivalence", num_seeds))
    mean, error = mean_and_error(log_ratio)
    p = np.vectorize(equivalence_p)(mean, error, num_seeds, EQUIVALENCE_MARGIN)
    return float(np.mean(np.any(holm(p.T) <= ALPHA, axis=1)))


@dataclass(frozen=True, slots=True)
class Claims:
    """Share of studies in which an arm of the baseline's cost is said to need less, or more."""

    less: float
    more: float

    ratio: float
    """Geometric mean of the ratios of all studies; 1 is the truth."""


def claims_up_to_limits(law: Law, num_seeds: int, num_studies: int) -> Claims:
    """Return the claims of the paired t-test on ratios up to the limits of pairs."""
    cost, is_reached = law.draw(num_studies, num_seeds, _draws("claims", num_seeds))
    return _claims(log_ratios_of(cost, is_reached)[0])


def claims_up_to_own_ends(law: Law, num_seeds: int, num_studies: int) -> Claims:
    """Return the same if the cost of each run counts up to its own end."""
    cost, _ = law.draw(num_studies, num_seeds, _draws("claims", num_seeds))
    return _claims(np.log(cost[1] / cost[0]))


def _claims(log_ratio: FloatArray) -> Claims:
    mean = np.mean(log_ratio, axis=1)
    is_decided, is_less = t_test(log_ratio) <= ALPHA, mean < 0.0
    return Claims(
        less=float(np.mean(is_decided & is_less)),
        more=float(np.mean(is_decided & ~is_less)),
        ratio=float(np.exp(np.mean(mean))),
    )


@dataclass(frozen=True, slots=True)
class Coverage:
    """Share of intervals that hold the mean log-ratio of a large independent sample."""

    t: float
    bca: float


def coverage(law: Law, num_seeds: int, num_studies: int) -> Coverage:
    """Return the coverage of both intervals, for the arm beside the baseline."""
    (truths,) = law.log_ratios(_NUM_TRUTH, 1, _draws("truth", num_seeds))
    truth = float(np.mean(truths))
    (log_ratio,) = law.log_ratios(num_studies, num_seeds, _draws("coverage", num_seeds))
    intervals = t_interval(log_ratio), bca_interval(log_ratio, 1, num_resamples=_NUM_RESAMPLES)
    # Ends are compared with the slack of rounded log-ratios.
    t, bca = (
        float(np.mean((low - 1e-6 <= truth) & (truth <= high + 1e-6))) for low, high in intervals
    )
    return Coverage(t, bca)


def simulated_power(effect: float, num_seeds: int, num_studies: int) -> float:
    """Return the share of studies that the t-test decides, by simulation."""
    log_ratio = _draws("power", num_seeds).normal(effect, 1.0, (num_studies, num_seeds))
    return float(np.mean(t_test(log_ratio) <= ALPHA))


def simulated_need(effect: float, num_studies: int, power: float = 0.8) -> int:
    """Return the fewest seeds with this power, by simulation."""
    num_seeds = 2
    while simulated_power(effect, num_seeds, num_studies) < power:
        num_seeds += 1
    return num_seeds


def median_estimate(effect: float, num_pilot_seeds: int, num_studies: int) -> int | None:
    """Return the median number of seeds that pilot studies of `num_pilot_seeds` ask for.

    The number falls with the observed effect, so its median is the number of the median effect.
    """
    log_ratio = _draws("pilot", num_pilot_seeds).normal(effect, 1.0, (num_studies, num_pilot_seeds))
    observed = np.abs(np.mean(log_ratio, axis=1)) / np.std(log_ratio, axis=1, ddof=1)
    return seeds_needed(float(np.median(observed)))


def _draws(purpose: str, num_seeds: int) -> np.random.Generator:
    return rng.stream(1, f"synthetic studies, {purpose}", num_seeds)


LAWS = {
    "no effect": Law((0.0, 0.0)),
    "effect -30 %": Law((0.0, -0.36)),
    "no effect, 20 % censored": Law((0.0, 0.0), censored=0.2),
    "effect -30 %, 20 % censored": Law((0.0, -0.36), censored=0.2),
    "effect +43 %, 20 % censored": Law((0.0, 0.36), censored=0.2),
    "effect -30 %, 20 % censored, ends spread by 0.3": Law((0.0, -0.36), censored=0.2, end_std=0.3),
    "effect -30 %, evaluated every tenth of the median": Law((0.0, -0.36), grid=0.1),
    "effect -30 %, 20 % censored, world spread 0.6": Law((0.0, -0.36), 0.6, censored=0.2),
    "no effect, 20 % censored, world spread 0.6": Law((0.0, 0.0), 0.6, censored=0.2),
    "effect -30 %, 50 % censored": Law((0.0, -0.36), censored=0.5),
}
NULL_LAWS = {
    "no effect": Law(),
    "no effect, 20 % censored": Law(censored=0.2),
    "no effect, 50 % censored": Law(censored=0.5),
    "no effect, 20 % censored, ends spread by 0.3": Law(censored=0.2, end_std=0.3),
    "no effect, evaluated every tenth of the median": Law(grid=0.1),
    "no effect, evaluated every half of the median": Law(grid=0.5),
}
_MARGIN = math.log1p(EQUIVALENCE_MARGIN)
AT_THE_MARGIN = {
    "one arm, noise 0.2": Law((0.0, _MARGIN)),
    "one arm, noise 0.02": Law((0.0, _MARGIN), noise_std=0.02),
    "four arms, noise 0.02": Law((0.0, *[_MARGIN] * 4), noise_std=0.02),
    # Rounding up lowers the ratio; with this effect it is 1.05 again.
    "one arm, noise 0.02, evaluated every tenth of the median": Law(
        (0.0, 0.0513), noise_std=0.02, grid=0.1
    ),
}
"""Laws whose arms cost the margin more than the baseline."""


CHEAP_ROUNDS = Law((0.0, 0.0), censored=0.2, end_factor=0.6)
"""Arms of equal cost; 20 % of the baseline's runs never reach the target, 70 % of the arm's."""


def _rows() -> Iterator[str]:
    yield from _header(f"false verdicts, {NUM_STUDIES:,} studies of 5 arms")
    for name, law in NULL_LAWS.items():
        yield _row(name, [f"{false_verdicts(law, num):.1%}" for num in SEEDS])
    yield from _header("false verdicts of equivalence, 5 % apart")
    for name, law in AT_THE_MARGIN.items():
        yield _row(name, [f"{false_equivalences(law, num):.1%}" for num in SEEDS])
    yield from _header("coverage of t, of BCa")
    for name, law in LAWS.items():
        covered = [coverage(law, num, NUM_STUDIES) for num in SEEDS]
        yield _row(name, [f"{both.t:.1%}, {both.bca:.1%}" for both in covered])
    yield from _header("arms of equal cost: claims of less, of more; ratio")
    for name, claims_of in {
        "up to the limit of the pair": claims_up_to_limits,
        "up to the own end of a run": claims_up_to_own_ends,
    }.items():
        claims = [claims_of(CHEAP_ROUNDS, num, NUM_STUDIES) for num in SEEDS]
        yield _row(name, [f"{c.less:.1%}, {c.more:.1%}; {c.ratio:.2f}" for c in claims])
    yield ""
    yield "| m / s | seeds needed | by simulation | median of pilots of 10 | of 20 |"
    yield "|---:|---:|---:|---:|---:|"
    for effect in (0.3, 0.5, 0.7, 1.0, 1.5):
        estimates = [median_estimate(effect, num, NUM_STUDIES) for num in (10, 20)]
        found = [seeds_needed(effect), simulated_need(effect, NUM_STUDIES), *estimates]
        yield _row(str(effect), list(map(str, found)))


def _header(title: str) -> Iterator[str]:
    yield ""
    yield _row(title, [f"{num} seeds" for num in SEEDS])
    yield "|---|" + "---:|" * len(SEEDS)


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for row in _rows():
        print(row, flush=True)
