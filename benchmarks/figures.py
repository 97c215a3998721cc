"""Figures of the results page, computed from measurements.

docs/benchmarks.md, "How it is measured", defines them. Evaluation is subtracted from fleetsim's
rounds, because no peer evaluates within its rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.results import Result

_GIGA = 1e9
_MIN_SAMPLES = 4
"""Fewest samples of processor time within the rounds from which used cores are computed."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of several measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Return the spread of some values; None if there are none.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
        """
        known = list(values)
        return spread_of(known) if known else None


def spread_of(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    return Spread(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one contestant at one work, over its repeats; None where unknown."""

    errors: tuple[str, ...]
    round_s: Spread | None
    first_round_s: Spread | None
    """Time from the start of the process to the end of the first round."""
    memory_mib: float | None
    """Peak until the last round ended, the median."""
    whole_memory_mib: float | None
    """Peak until the process ended, the median."""
    cores: float | None
    """Processor time over wall time from the end of the first round to that of the last; the
    median."""
    accuracy: Spread | None


@dataclass(frozen=True, slots=True)
class SimulatorCost:
    """Host time of fleetsim's rounds outside training and evaluation, without the first round.

    The figures are means over the rounds, so that checkpoints count, which not all rounds have.
    """

    round_ms: Spread
    share: float
    """Share of the round, the median."""
    task_us: Spread
    """Host time per task, if the tasks took all of it."""
    num_tasks: float
    """Tasks that are dispatched in a round."""
    num_steps: float | None
    """SGD steps that are computed in a round after the first; None: not on record."""


def round_durations_s(result: Result) -> list[float]:
    """Return the seconds of each round without evaluations."""
    ends = (result.began_at_s, *result.round_ended_at_s)
    evaluations = (
        (0.0, *result.simulator.evaluation_s)
        if result.simulator is not None
        else (0.0,) * len(ends)
    )
    return [
        stop - start - (spent - before)
        for start, stop, before, spent in zip(
            ends, ends[1:], evaluations, evaluations[1:], strict=False
        )
    ]


def seconds_per_round(result: Result) -> float:
    """Return the median over the rounds without the first, or the first if it is the only one."""
    durations = round_durations_s(result)
    return median(durations[1:] or durations)


def first_round_s(result: Result) -> float:
    """Return the time from the start of the process to the end of the first round."""
    return result.round_ended_at_s[0] - result.started_at_s


def peak_memory_mib(result: Result, until_s: float) -> float:
    """Return the largest sampled memory until a given time."""
    return max((mib for at_s, mib, _ in result.samples if at_s <= until_s), default=0.0)


def cores_used(result: Result) -> float | None:
    """Return processor over wall time after the first round; None if that was too short."""
    start, stop = result.round_ended_at_s[0], result.round_ended_at_s[-1]
    seen = [(at_s, cpu_s) for at_s, _, cpu_s in result.samples if start <= at_s <= stop]
    if len(seen) < _MIN_SAMPLES:
        return None
    (began_s, cpu_before_s), (ended_s, cpu_after_s) = seen[0], seen[-1]
    return (cpu_after_s - cpu_before_s) / (ended_s - began_s)


def figures(results: Sequence[Result]) -> Figures:
    """Compute the figures of one contestant from all its runs of one work."""
    good = [result for result in results if result.error is None]

    def spread(figure: Callable[[Result], float | None]) -> Spread | None:
        return Spread.of(value for value in map(figure, good) if value is not None)

    def middle(figure: Callable[[Result], float | None]) -> float | None:
        found = spread(figure)
        return None if found is None else found.median

    return Figures(
        errors=tuple(dict.fromkeys(result.error for result in results if result.error)),
        round_s=spread(seconds_per_round),
        first_round_s=spread(first_round_s),
        memory_mib=middle(lambda run: peak_memory_mib(run, run.round_ended_at_s[-1])),
        whole_memory_mib=middle(lambda run: peak_memory_mib(run, run.ended_at_s)),
        cores=middle(cores_used),
        accuracy=spread(lambda run: run.accuracy),
    )


def gflop_per_round(results: Sequence[Result]) -> float | None:
    """Return the GFLOP of a round's used updates, as fleetsim counts them; None if unknown."""
    for result in results:
        if result.error is None and result.simulator is not None:
            return result.simulator.used_flop / result.rounds / _GIGA
    return None


def simulator_cost(results: Sequence[Result]) -> SimulatorCost | None:
    """Compute the cost of fleetsim's rounds outside training; None if it was not measured."""
    outside_s, shares, per_task_s, tasks, steps = [], [], [], [], []
    for result in results:
        inner = result.simulator
        if result.error is not None or inner is None or result.rounds < 2:
            continue
        durations = round_durations_s(result)[1:]
        trained = [b - a for a, b in zip(inner.training_s, inner.training_s[1:], strict=False)]
        outside = [whole - part for whole, part in zip(durations, trained, strict=True)]
        num_tasks = inner.num_tasks / result.rounds
        outside_s.append(fmean(outside))
        shares.append(sum(outside) / sum(durations))
        per_task_s.append(fmean(outside) / num_tasks)
        tasks.append(num_tasks)
        steps.append((inner.num_steps[-1] - inner.num_steps[0]) / (result.rounds - 1))
    if not outside_s:
        return None
    return SimulatorCost(
        round_ms=spread_of([1e3 * value for value in outside_s]),
        share=median(shares),
        task_us=spread_of([1e6 * value for value in per_task_s]),
        num_tasks=median(tasks),
        num_steps=median(steps),
    )
