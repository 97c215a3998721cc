"""Tables that compare a paper's figures with ours, and check the directions that it claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.papers.experiment import Claim, Experiment
from benchmarks.papers.measures import MEASURES
from benchmarks.papers.outcomes import Outcome
from benchmarks.papers.prices import Price
from fleetsim.report.quantities import digits

Outcomes = Mapping[str, Sequence[Outcome]]
"""Outcomes by arm, one per seed, with the same order of seeds in all arms."""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcomes of an experiment, and what its study says of them."""

    experiment: Experiment
    scenario: str
    baseline: str
    """Arm with which the others are compared."""
    seeds: Sequence[int]
    targets: Sequence[float]
    """Accuracies whose costs in rounds, seconds and joules are compared."""
    outcomes: Outcomes


Spec = str | Callable[[float], str]
"""Format of a number: a specification for `format`, or a function."""
_NEVER = "never"


def measures_table(experiment: Experiment, found: Outcomes) -> str:
    """Return a table with a row per arm: for each measure the paper's figure, if any, and ours."""
    head = ["selector"]
    for name in experiment.measures:
        if any((arm, name) in experiment.papers for arm in found):
            head.append(f"{MEASURES[name].label}: paper")
            head.append("here")
        else:
            head.append(MEASURES[name].label)
    rows = []
    for arm, of_arm in found.items():
        row = [arm]
        for name in experiment.measures:
            if any((other, name) in experiment.papers for other in found):
                row.append(experiment.papers.get((arm, name), ""))
            measure = MEASURES[name]
            row.append(spread([one.measures[name] for one in of_arm], measure.spec))
        rows.append(row)
    return markdown(head, rows)


def claims_table(experiment: Experiment, found: Outcomes) -> str:
    """Return a table with a row per claim: the paper's figures, ours, and the seeds that agree."""
    rows = []
    for claim in experiment.claims:
        if not set(claim.order) <= set(found):
            continue
        measure = MEASURES[claim.measure]
        values = {arm: [one.measures[claim.measure] for one in found[arm]] for arm in claim.order}
        better, worse = claim.order
        kept = [holds(claim, *pair) for pair in zip(values[better], values[worse], strict=True)]
        sign = "<" if claim.best_is == "least" else ">"
        said = [experiment.papers.get((arm, claim.measure), "") for arm in claim.order]
        rows.append(
            [
                f"{measure.label}: {better} {sign} {worse}",
                f" {sign} ".join(said) if all(said) else "yes",
                f" {sign} ".join(spread(values[arm], measure.spec) for arm in claim.order)
                if all(kept)
                else ", ".join(spread(values[arm], measure.spec) for arm in claim.order),
                verdict(kept),
            ]
        )
    return markdown(["direction", "paper", "here", "holds"], rows)


def holds(claim: Claim, better: float | None, worse: float | None) -> bool:
    """Return True if one value is strictly better; a target that was never reached is worst.

    >>> least = Claim("final", ("a", "b"), "least")
    >>> holds(least, 3.0, 4.0), holds(least, 3.0, None), holds(least, None, None)
    (True, True, False)
    """
    sign = 1.0 if claim.best_is == "least" else -1.0
    first, second = (math.inf if value is None else sign * value for value in (better, worse))
    return first < second


def verdict(kept: Sequence[bool]) -> str:
    """Summarise a claim over all seeds.

    >>> verdict([True, True]), verdict([True, False]), verdict([False])
    ('yes', 'in 1 of 2 seeds', 'no')
    """
    if all(kept):
        return "yes"
    return f"in {sum(kept)} of {len(kept)} seeds" if any(kept) else "no"


def price_table(targets: Sequence[float], found: Outcomes) -> tuple[float, str] | None:
    """Return an accuracy and the table of rounds, seconds and joules to it by arm.

    None if no arm reached any of the targets.
    """
    target = best_target(found, targets)
    if target is None:
        return None
    rows = []
    for arm, prices in prices_of(found, target).items():
        reached = [one for one in prices if one is not None]
        rows.append(
            [
                arm,
                _spread_of(prices, "rounds", ".0f"),
                _spread_of(prices, "seconds", digits),
                _spread_of(prices, "joules", digits),
                f"{100 * fmean(one.probing_fraction for one in reached):.1f} %" if reached else "",
            ]
        )
    return target, markdown(["selector", "rounds", "seconds", "joules", "of them probing"], rows)


def best_target(found: Outcomes, targets: Sequence[float]) -> float | None:
    """Return the highest target that the most arms reached with all seeds; None if none did."""

    def num_arms(target: float) -> int:
        return sum(
            all(one.prices[target] is not None for one in of_arm) for of_arm in found.values()
        )

    best = max(targets, key=lambda target: (num_arms(target), target), default=None)
    return None if best is None or num_arms(best) == 0 else best


def prices_of(found: Outcomes, target: float) -> dict[str, list[Price | None]]:
    """Return the prices of an accuracy by arm and seed."""
    return {arm: [one.prices[target] for one in of_arm] for arm, of_arm in found.items()}


def _spread_of(prices: Sequence[Price | None], name: str, spec: Spec) -> str:
    return spread([None if one is None else getattr(one, name) for one in prices], spec)


def spread(values: Sequence[float | None], spec: Spec) -> str:
    """Format mean and range over the seeds; also the number of seeds if some have no value.

    >>> spread([1.0, 3.0], ".1f"), spread([2.0, None], ".0f"), spread([None], ".0f")
    ('2.0 [1.0, 3.0]', '2 (1 of 2 seeds)', 'never')
    """
    known = [value for value in values if value is not None]
    if not known:
        return _NEVER
    show = spec if callable(spec) else f"{{:{spec}}}".format
    text = show(fmean(known))
    if min(known) != max(known):
        text += f" [{show(min(known))}, {show(max(known))}]"
    return text if len(known) == len(values) else f"{text} ({len(known)} of {len(values)} seeds)"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
