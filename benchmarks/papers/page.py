"""Generated parts of the pages in docs/papers, one between the marks of each study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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


def fill(pages: Mapping[Path, str], name: str, text: str) -> tuple[Path, str]:
    r"""Return the page that has the marks of a study, with a new part between them.

    Raises:
        ValueError: no page has the marks, or more than one place.

    >>> page, text = fill({Path("p.md"): "a\n<!-- begin x -->\nold\n<!-- end x -->\nb"}, "x", "new")
    >>> text.splitlines()
    ['a', '<!-- begin x -->', 'new', '<!-- end x -->', 'b']
    >>> fill({Path("p.md"): "<!-- begin x -->\n<!-- end x -->\nb"}, "x", "new")[1].splitlines()
    ['<!-- begin x -->', 'new', '<!-- end x -->', 'b']
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    places = [page for page, whole in pages.items() for _ in range(whole.count(begin))]
    before, _, rest = pages[places[0]].partition(begin) if len(places) == 1 else ("", "", "")
    if rest.count(end) != 1:
        raise ValueError(f"one page must have {begin} and after it {end}, once")
    return places[0], f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"
