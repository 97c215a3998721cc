r"""Tables of a study for a paper, in LaTeX with booktabs (``\usepackage{booktabs}``).

Numbers are plain text, so that no other package is needed.
"""

import re
from collections.abc import Iterable, Sequence

from fleetsim.studies.page.html_tables import SortableTable, TableCell
from fleetsim.studies.page.html_tables import summaries as summaries_table
from fleetsim.studies.page.html_tables import verdicts as verdicts_table
from fleetsim.studies.study_tables import StudyHeader, StudyTables

_WORDS = {
    "\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater",
    "|": "bar",
}  # fmt: skip
_ESCAPES = str.maketrans(
    {letter: f"\\{letter}" for letter in "&%$#_{}"}
    | {letter: f"\\text{word}{{}}" for letter, word in _WORDS.items()}
    | {'"': "''", "[": "{[}", "]": "{]}"}
)
_SUMMARIES = ("arm", "condition", "target", "currency", "reached", "mean", "standard deviation",
              "median", "restricted mean")  # fmt: skip
_VERDICTS = ("arm", "condition", "target", "currency", "ratio", "95 % t interval", "p (t, Holm)",
             "reached", "baseline reached", "verdict")  # fmt: skip


def escaped(text: str) -> str:
    r"""Return text in which LaTeX reads no command.

    >>> escaped("a_b & 5 %")
    'a\\_b \\& 5 \\%'
    """
    # A bracket after a line's end would be read as its argument, and a line break as a paragraph.
    return re.sub(r"\s+", " ", text).translate(_ESCAPES)


def summaries(tables: StudyTables, header: StudyHeader) -> str:
    """Return the costs over seeds as a LaTeX table."""
    table = summaries_table(tables, header)
    caption = (
        f"Costs to the targets of {header.name}: mean, standard deviation and median over the"
        " seeds that reached the target, if all did; the restricted mean counts a run that never"
        " reached it with what it spent."
    )
    return _booktabs(table, _SUMMARIES, caption, "summaries")


def verdicts(tables: StudyTables, header: StudyHeader) -> str:
    """Return the verdicts as a LaTeX table."""
    table = verdicts_table(tables, header)
    caption = (
        f"Costs as a multiple of those of {header.baseline}: geometric mean of the ratios paired"
        " by seed with the 95 % t interval, and p of the paired t-test adjusted by Holm's method."
    )
    return _booktabs(table, _VERDICTS, caption, "verdicts")


def _booktabs(table: SortableTable, requested: Sequence[str], caption: str, label: str) -> str:
    names = [name for name in requested if name in table.columns]
    places = [table.columns.index(name) for name in names]
    is_number = [any(row[place].value is not None for row in table.rows) for place in places]
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table*}",
        "\\centering",
        f"\\caption{{{escaped(caption)}}}",
        f"\\label{{tab:{label}}}",
        "\\small",
        f"\\begin{{tabular}}{{{''.join('r' if number else 'l' for number in is_number)}}}",
        "\\toprule",
        _line(escaped(name) for name in names),
        "\\midrule",
    ]
    for number, rows in enumerate(_groups(table)):
        lines += ["\\addlinespace"] if number else []
        lines += [_line(escaped(row[place].text) for place in places) for row in rows]
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table*}", ""]
    return "\n".join(lines)


def _groups(table: SortableTable) -> Iterable[list[tuple[TableCell, ...]]]:
    """Return the rows of each target and currency, in order of their first appearance."""
    places = [table.columns.index(name) for name in ("target", "currency")]
    groups: dict[tuple[str, ...], list[tuple[TableCell, ...]]] = {}
    for row in table.rows:
        groups.setdefault(tuple(row[place].text for place in places), []).append(row)
    return groups.values()


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
