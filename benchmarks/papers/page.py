"""Generated parts of docs/papers.md, one between the marks of each study."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.papers import tables
from benchmarks.papers.evidence_table import evidence_table
from benchmarks.papers.tables import Result


def section(result: Result) -> str:
    """Return the generated text of an experiment."""
    experiment, found = result.experiment, result.outcomes
    lengths = sorted({one.rounds for of_arm in found.values() for one in of_arm})
    rounds = " to ".join(str(length) for length in {lengths[0]: 0, lengths[-1]: 0})
    said = ", ".join(str(seed) for seed in result.seeds)
    parts = [
        f"`{result.scenario}`, {rounds} rounds, seeds {said}: mean [smallest, largest].",
        tables.measures_table(experiment, found),
    ]
    if experiment.claims:
        parts.append(tables.claims_table(experiment, found))
    priced = tables.price_table(result.targets, found)
    if priced is not None:
        target, table = priced
        parts += [f"Cost of {100 * target:g} % accuracy:", table]
    compared = evidence_table(result)
    if compared is not None:
        parts += [
            f"Against {result.baseline}, paired by seed: mean [95 % interval]. **Bold**: "
            f"significantly different from {result.baseline} (Student's paired t, Holm's "
            "adjustment over the selectors, 5 %). "
            "Ratios are geometric means; a run that never reached the accuracy counts with its "
            f'costs until it ended, and "reached" has the numbers of seeds with it, '
            f"{result.baseline}'s second.",
            compared,
        ]
    return "\n\n".join(parts)


def fill(page: str, sections: Mapping[str, str]) -> str:
    r"""Return the page with new parts for these studies; those of others stay unchanged.

    Raises:
        ValueError: the page has no marks for a study.

    >>> fill("a\n<!-- begin x -->\nold\n<!-- end x -->\nb", {"x": "new"}).splitlines()
    ['a', '<!-- begin x -->', 'new', '<!-- end x -->', 'b']
    """
    for name, text in sections.items():
        marks = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.compile(f"{re.escape(marks[0])}.*?{re.escape(marks[1])}", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"the page must have {marks[0]} and {marks[1]} once")
        whole = f"{marks[0]}\n{text}\n{marks[1]}"
        page = pattern.sub(lambda _, whole=whole: whole, page)  # type: ignore[misc]
    return page
