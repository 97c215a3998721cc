r"""Tables of a study for a paper, in LaTeX with booktabs (``\usepackage{booktabs}``) alone.

A column has one unit and one number of decimals, so that its numbers can be read downwards. Rows
are grouped by target and condition.
"""

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from fleetsim.report import quantities
from fleetsim.studies import evidence
from fleetsim.studies.page import chart_data, intervals, units
from fleetsim.studies.page.study_tables import METRICS, StudyHeader, StudyTables
from fleetsim.studies.settings import WHOLE_RUN, Metric
from fleetsim.studies.statistics.comparison import ALPHA

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
# Marks take no width, so that the numbers above and below stay in line.
_DAGGER, _STAR = r"\rlap{$^{\dagger}$}", r"\rlap{$^{\ast}$}"
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


def summaries(tables: StudyTables, header: StudyHeader, *, has_std: bool = False) -> str:
    """Return mean costs, with their interval or the standard deviation over seeds, as a table."""
    costs = chart_data.done_only(tables.costs, tables.runs)
    columns = [
        _costs(metric, rows, header.arms, has_std=has_std)
        for metric in METRICS
        if len(rows := costs[costs["metric"] == metric]) and (rows["cost"] > 0.0).all()
    ]
    nums = costs.groupby([*_PLACE, "metric"]).size()
    spread = escaped(intervals.words(nums, mean="logarithms"))
    words = r"Mean $\pm$ standard deviation over seeds" if has_std else f"Geometric mean [{spread}]"
    caption = (
        f"{words}. Bold: least cost of the arms that reached the target in all seeds; $\\dagger$:"
        f" not significantly different from it (one-sided paired $t$-test of log-ratios, $p$ times"
        f" the number of other arms, level {ALPHA}). $\\geq$: some runs, which"
        " count with what they had spent, ended without the target; in parentheses how many"
        " reached it."
    )
    return _tables(columns, 3, tables, header, "costs", caption, "summaries")


def verdicts(tables: StudyTables, header: StudyHeader) -> str:
    """Return the ratios to the baseline and their p-values as a LaTeX table."""
    columns: list[Column] = []
    for metric, rows in tables.verdicts.groupby("metric", sort=False):
        ratios, ps = {}, {}
        for row in rows.to_dict("records"):
            place = tuple(row[name] for name in _PLACE)
            ratio = units.ratio(row["ratio"], row["low"], row["high"])
            ratio = f"\\textbf{{{ratio}}}" if row["p_holm"] <= ALPHA else ratio
            interval = units.interval(row["low"], row["high"]).strip(quantities.NOTHING)
            ratios[place] = f"{ratio} {interval}{_STAR if row['is_restricted'] else ''}"
            ps[place] = escaped(units.p_text(row["p_holm"]))
        columns += [(f"{_head(str(metric))} ratio", ratios), ("$p$", ps)]
    caption = (
        "Geometric mean of the ratios paired by seed [95\\,\\% $t$ interval];"
        f" {_TEST}. Bold: significant at the level {ALPHA}. $\\ast$: costs of runs without the"
        " target count until they ended."
    )
    what = f"costs as a multiple of those of {header.baseline or 'the best level'}"
    return _tables(columns, 6, tables, header, what, caption, "verdicts")


def _costs(metric: Metric, costs: pd.DataFrame, arms: Sequence[str], *, has_std: bool) -> Column:
    """Return the column of a metric."""
    groups = {tuple(map(str, place)): rows for place, rows in costs.groupby(_PLACE)}
    means = {place: intervals.geometric(each["cost"].to_numpy()) for place, each in groups.items()}
    center = {
        place: float(each["cost"].mean()) if has_std else means[place].center
        for place, each in groups.items()
    }
    scale, unit = units.of_axis(float(np.median(list(center.values()))), metric)
    # Three digits of the smallest number.
    decimals = max(0, 2 - math.floor(math.log10(min(center.values()) / scale)))

    def text(value: float) -> str:
        return f"{value / scale:,.{decimals}f}"

    cells = {}
    for place, rows in groups.items():
        cells[place], mean = text(center[place]), means[place]
        num_reached = int(rows["is_reached"].sum())
        if num_reached < len(rows):
            cells[place] = f"$\\geq$ {cells[place]} ({num_reached}/{len(rows)})"
        elif len(rows) > 1 and has_std:
            cells[place] += f" $\\pm$ {text(float(rows['cost'].std()))}"
        elif len(rows) > 1:
            cells[place] += f" [{text(mean.low)}, {text(mean.high)}]"
    for (target, condition), rows in costs.groupby(_PLACE[:2]):
        keys = str(target), str(condition)
        complete = [str(arm) for arm, each in rows.groupby("arm") if each["is_reached"].all()]
        if complete:
            best = min(complete, key=lambda arm: means[*keys, arm].center)
            number, space, spread = cells[*keys, best].partition(" ")
            cells[*keys, best] = f"\\textbf{{{number}}}{space}{spread}"
            compared = evidence.verdicts(rows, arms, None)
            is_near = ~compared["kind"].isin(["more", "one seed"])
            for arm in compared.loc[is_near, "arm"]:
                cells[*keys, arm] += _DAGGER
    return _head(metric, unit), cells


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
    to = "for" if targets == WHOLE_RUN else "to the target accuracy"
    num_done = int((tables.runs["status"] == "done").sum())
    opening = escaped(
        f"{header.name}: {what} {to} {targets}; {num_done} of {len(tables.runs)} runs,"
        f" seeds {quantities.some(list(map(str, header.seeds)), 12, ', ')}."
    )
    words = f"{opening} {caption}".replace(" \\%", "\\,\\%")
    lines = ["% needs \\usepackage{booktabs} and no other package"]
    for first in range(0, len(columns), most):
        name = f"{chart_data.slug(header.name)}-{label}{f'-{first // most + 1}' if first else ''}"
        lines += [
            "\\begin{table*}\n\\centering",
            f"\\caption{{{words}}}\n\\label{{tab:{name}}}\n\\small",
            *_tabular(columns[first : first + most], header),
            "\\end{table*}",
        ]
    return "\n".join([*lines, ""])


def _tabular(columns: Sequence[Column], header: StudyHeader) -> Iterator[str]:
    """Yield the lines of a tabular, in groups of one target and condition."""
    is_long = max(map(len, header.arms)) > _MOST_LETTERS
    yield f"\\begin{{tabular}}{{{'p{1.55in}' if is_long else 'l'}{'r' * len(columns)}}}\n\\toprule"
    heads = (f"\\multicolumn{{1}}{{c}}{{{head}}}" for head, _ in columns)
    yield " & ".join(("Arm", *heads)) + " \\\\"
    present = set().union(*(cells for _, cells in columns))
    rule = "\\midrule"
    for group in ((target, each) for target in header.targets for each in header.conditions):
        arms = [arm for arm in header.arms if (*group, arm) in present]
        if arms:
            words = escaped(", ".join(filter(None, group)))
            yield f"{rule}\n\\multicolumn{{{1 + len(columns)}}}{{l}}{{\\emph{{{words}}}}} \\\\"
            rule = "\\addlinespace"
        for arm in arms:
            name = ("\\raggedright " if is_long else "") + escaped(arm)
            cells = (each.get((*group, arm), quantities.NOTHING) for _, each in columns)
            yield " & ".join((name, *cells)) + " \\\\"
    yield "\\bottomrule\n\\end{tabular}"


def _head(metric: str, unit: str = "") -> str:
    return escaped(_HEADS.get(metric, metric.capitalize()) + (f" ({unit})" if unit else ""))
