r"""Tables of a study for a paper, in LaTeX with booktabs (``\usepackage{booktabs}``) alone.

A column has one unit and one number of decimals, so that its numbers can be read downwards. Rows
are grouped by target and condition.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from fleetsim.report import quantities
from fleetsim.studies import evidence
from fleetsim.studies.page import chart_data, html_tables, intervals, units
from fleetsim.studies.settings import WHOLE_RUN
from fleetsim.studies.statistics.comparison import ALPHA
from fleetsim.studies.study_tables import StudyHeader, StudyTables

Spread = Literal["interval", "std"]
"""What stands beside a mean: the interval in charts of the page, or the standard deviation."""

_WORDS = {
    "\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater",
    "|": "bar",
}  # fmt: skip
_ESCAPES = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {letter: f"\\text{word}{{}}" for letter, word in _WORDS.items()}
    | {'"': "''", "[": "{[}", "]": "{]}"}
)
_HEADS = {"seconds": "Time", "joules": "Energy", "dollars": "Cost", "grams": "Carbon"}
_MOST_LETTERS = 24
"""Longest name of an arm in one line."""
_TEST = "paired $t$-test of log-ratios, $p$ adjusted over the arms by Holm's method"
_PLACE = ["target", "condition", "arm"]

Column = tuple[str, dict[tuple[str, ...], str]]
"""Head of a column, and its cells by target, condition and arm."""


def escaped(text: str) -> str:
    r"""Return text in which LaTeX reads no command.

    >>> escaped("a_b & 5 %")
    'a\\_b \\& 5 \\%'
    """
    # A bracket after a line's end would be read as its argument, and a line break as a paragraph.
    return re.sub(r"\s+", " ", text).translate(_ESCAPES)


def summaries(tables: StudyTables, header: StudyHeader, spread: Spread = "interval") -> str:
    """Return the costs over seeds as a LaTeX table; a second one with more than three metrics."""
    costs = chart_data.done_only(tables.costs, tables.runs)
    columns = [
        _costs(str(metric), rows, header.arms, spread)
        for metric, rows in costs.groupby("currency", sort=False)
        if (rows["cost"] > 0.0).all()
    ]
    nums = costs.groupby([*_PLACE, "currency"]).size()
    words = escaped(f"Geometric mean, in brackets the {intervals.words(nums, mean='logarithms')}.")
    if len(header.seeds) == 1 or spread == "std":
        words = (
            "One seed." if len(header.seeds) == 1 else r"Mean $\pm$ standard deviation over seeds."
        )
    caption = (
        f"{words} Bold: least cost of the arms that reached the target in all seeds; $\\dagger$:"
        f" not significantly different from it ({_TEST}, level {ALPHA}). $\\geq$: some runs, which"
        " count with what they had spent, ended without the target; in parentheses how many"
        " reached it."
    )
    return _tables(columns, 3, tables, header, "costs", caption, "summaries")


def verdicts(tables: StudyTables, header: StudyHeader) -> str:
    """Return the ratios to the baseline and their p-values as a LaTeX table."""
    columns: list[Column] = []
    for metric, rows in tables.verdicts.groupby("currency", sort=False):
        ratios, ps = {}, {}
        for row in rows.to_dict("records"):
            place = tuple(row[name] for name in _PLACE)
            ratio = _bold(html_tables.ratio(row["ratio"]), is_bold=row["p_holm"] <= ALPHA)
            interval = html_tables.interval(row["low"], row["high"])
            mark = r"\rlap{$^{\ast}$}" if row["is_restricted"] else ""
            ratios[place] = f"{ratio} {interval.removesuffix(quantities.NOTHING)}{mark}"
            ps[place] = escaped(units.p_text(row["p_holm"]))
        columns += [(f"{_head(str(metric))} ratio", ratios), ("$p$", ps)]
    caption = (
        "Geometric mean of the ratios paired by seed, in brackets the 95\\,\\% $t$ interval;"
        f" {_TEST}. Bold: significant at the level {ALPHA}. $\\ast$: costs of runs without the"
        " target count until they ended."
    )
    what = f"costs as a multiple of those of {header.baseline}"
    return _tables(columns, 6, tables, header, what, caption, "verdicts")


def _costs(metric: str, costs: pd.DataFrame, arms: Sequence[str], spread: Spread) -> Column:
    """Return the column of a metric: mean and spread of every arm."""
    groups: dict[tuple[str, ...], pd.DataFrame] = dict(list(costs.groupby(_PLACE)))
    center = {
        place: rows["cost"].mean()
        if spread == "std"
        else intervals.geometric(rows["cost"].to_numpy()).center
        for place, rows in groups.items()
    }
    scale, unit = units.of_axis(float(np.median(list(center.values()))), metric)
    # Three digits of the smallest number.
    decimals = max(0, 2 - math.floor(math.log10(min(center.values()) / scale)))
    best, near = set(), set()
    for keys, rows in costs.groupby(_PLACE[:2]):
        complete = [(*keys, arm) for arm, each in rows.groupby("arm") if each["is_reached"].all()]
        if complete:
            first = min(complete, key=lambda place: center[place])
            best.add(first)
            compared = evidence.verdicts(rows, arms, first[-1])
            is_near = (compared["num_pairs"] > 1) & ~(compared["p_holm"] <= ALPHA)
            near |= {(*keys, arm) for arm in compared.loc[is_near, "arm"]}

    def cell(place: tuple[str, ...], rows: pd.DataFrame) -> str:
        def text(value: float) -> str:
            return f"{value / scale:,.{decimals}f}"

        shown = _bold(text(center[place]), is_bold=place in best)
        num_reached, num = int(rows["is_reached"].sum()), len(rows)
        if num_reached < num:
            shown = f"$\\geq$ {shown} ({num_reached}/{num})"
        elif num > 1 and spread == "std":
            shown += f" $\\pm$ {text(rows['cost'].std())}"
        elif num > 1:
            mean = intervals.geometric(rows["cost"].to_numpy())
            shown += f" [{text(mean.low)}, {text(mean.high)}]"
        # A mark takes no width, so that the numbers above and below stay in line.
        return shown + (r"\rlap{$^{\dagger}$}" if place in near else "")

    return _head(metric, unit), {place: cell(place, rows) for place, rows in groups.items()}


def _tables(
    columns: Sequence[Column],
    most: int,
    tables: StudyTables,
    header: StudyHeader,
    what: str,
    caption: str,
    label: str,
) -> str:
    """Return a table for every `most` columns, which fit the width of a page."""
    targets = ", ".join(header.targets)
    to = f"for {targets}" if targets == WHOLE_RUN else f"to the target accuracy {targets}"
    conditions = header.conditions if len(header.conditions) == 1 else ()
    where = ", ".join(filter(None, (to, *conditions)))
    seeds = quantities.some(list(map(str, header.seeds)), 12, ", ")
    num_done = int((tables.runs["status"] == "done").sum())
    opening = (
        f"{header.name}: {what} {where}; {num_done} of {len(tables.runs)} runs, seeds {seeds}."
    )
    text = "% needs \\usepackage{booktabs} and no other package\n"
    for first in range(0, len(columns), most):
        number = f"-{first // most + 1}" if first else ""
        text += "\n".join(
            (
                "\\begin{table*}\n\\centering",
                f"\\caption{{{escaped(opening)} {caption}}}",
                f"\\label{{tab:{chart_data.slug(header.name)}-{label}{number}}}",
                "\\small",
                *_tabular(columns[first : first + most], header),
                "\\end{table*}\n",
            )
        )
    return text


def _tabular(columns: Sequence[Column], header: StudyHeader) -> Iterator[str]:
    """Yield the lines of a tabular, in groups of one target and condition."""
    is_long = max(map(len, header.arms)) > _MOST_LETTERS
    yield f"\\begin{{tabular}}{{{'p{1.55in}' if is_long else 'l'}{'r' * len(columns)}}}"
    yield "\\toprule"
    yield _line("Arm", *(f"\\multicolumn{{1}}{{c}}{{{head}}}" for head, _ in columns))
    yield "\\midrule"
    present = set().union(*(cells for _, cells in columns))
    every = [(target, condition) for target in header.targets for condition in header.conditions]
    groups = [group for group in every if group in {place[:2] for place in present}]
    for number, group in enumerate(groups):
        if len(groups) > 1:
            words = escaped(", ".join(filter(None, group)))
            space = "\\addlinespace\n" if number else ""
            yield f"{space}\\multicolumn{{{1 + len(columns)}}}{{l}}{{\\emph{{{words}}}}} \\\\"
        for arm in header.arms:
            place = (*group, arm)
            if place in present:
                name = ("\\raggedright " if is_long else "") + escaped(arm)
                yield _line(name, *(cells.get(place, quantities.NOTHING) for _, cells in columns))
    yield "\\bottomrule\n\\end{tabular}"


def _line(*cells: str) -> str:
    return " & ".join(cells) + r" \\"


def _bold(text: str, *, is_bold: bool) -> str:
    return f"\\textbf{{{text}}}" if is_bold else text


def _head(metric: str, unit: str = "") -> str:
    return escaped(_HEADS.get(metric, metric.capitalize()) + (f" ({unit})" if unit else ""))
