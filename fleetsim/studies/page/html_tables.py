"""Tables of the page: cells with text and the value to sort by."""

import math
import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from fleetsim.report import quantities
from fleetsim.studies.page import findings, units
from fleetsim.studies.page.study_tables import StudyHeader, StudyTables


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell: its text, the number to sort by (None: the text), and where it leads to."""

    text: str
    value: float | None = None
    address: str | None = None
    kind: str = ""
    """Kind of a verdict, for its colour."""

    @property
    def key(self) -> str:
        """Number as text; a missing one sorts last."""
        if self.value is None:
            return ""
        return "nan" if math.isnan(self.value) else repr(float(self.value))


Row = dict[Hashable, Any]
Cell = Callable[[Row], TableCell]
Cells = Mapping[str, Cell]
"""Cells of a row by column."""
Choices = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class SortableTable:
    """A table whose columns can be sorted, with choices by which its rows are filtered."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    choices: Choices = ()
    """Columns to filter by, and their values."""


def verdicts(tables: StudyTables, header: StudyHeader) -> SortableTable:
    """Return the table of verdicts."""
    cells: Cells = {
        **_place("arm", "condition", "target", "metric"),
        "verdict": lambda row: TableCell(row["kind"], kind=row["kind"]),
        "ratio": lambda row: _number(
            row["ratio"], units.ratio(row["ratio"], row["low"], row["high"])
        ),
        "95 % t interval": _interval("low", "high"),
        "95 % BCa interval": _interval("bca_low", "bca_high"),
        "p (t, Holm)" if header.baseline else "p (t, adjusted)": _shown("p_holm", units.p_text),
        "equal within": _shown("equal_within", quantities.percent),
        "p (t)": _shown("p_t", units.p_text),
        "p (Wilcoxon)": _shown("p_wilcoxon", units.p_text),
        "p (sign)": _shown("p_sign", units.p_text),
        "reached": _reached("num_reached", "num_pairs"),
        "baseline reached": _reached("num_baseline_reached", "num_pairs"),
        "more seeds": _shown("num_more_seeds", _count),
    }
    if header.baseline is None:
        reference = "the best level of each target and metric", "one-sided, times their number,"
    else:
        reference = header.baseline, "adjusted by Holm's method"
    caption = (
        "Costs of each arm as a multiple of those of {}, paired by seed. p-values {} decide."
        " Equal within: margin of two one-sided tests. More seeds: further ones with which the test"
        " has a power of 0.8 (power analysis)."
    ).format(*reference)
    choices = _choices(header, tables)
    return _table("verdicts", caption, cells, tables.verdicts, header, choices)


def summaries(tables: StudyTables, header: StudyHeader) -> SortableTable:
    """Return the table of costs over seeds."""
    cells: Cells = {
        **_place("arm", "condition", "target", "metric"),
        "reached": _reached("num_reached", "num_seeds"),
        "mean": _cost("mean"),
        "standard deviation": _cost("std"),
        "median": _cost("median", bound="is_median_bound"),
        "least": _cost("least"),
        "most": _cost("most"),
        "restricted mean": _cost("restricted_mean"),
    }
    caption = (
        "Costs until the target was reached, over seeds. A statistic that runs without the"
        " target leave open is -. The restricted mean counts such runs with what they had spent"
        " when they ended."
    )
    choices = _choices(header, tables)
    return _table("summaries", caption, cells, tables.summaries, header, choices)


def runs(tables: StudyTables, header: StudyHeader, folder: Path) -> SortableTable:
    """Return the table of runs, with links relative to the folder of the page."""
    cells: Cells = {
        **_place("arm", "condition"),
        "seed": lambda row: TableCell(str(row["seed"]), float(row["seed"])),
        "status": lambda row: TableCell(row["status"], kind=row["status"]),
        "rounds": _shown("rounds", _count),
        "virtual time": _shown("virtual_s", partial(units.text, metric="seconds")),
        "energy": _shown("energy_j", partial(units.text, metric="joules")),
        "final accuracy": _shown("final_accuracy", quantities.percent),
        "platform": lambda row: TableCell(_text(row["platform"]) or quantities.NOTHING),
        "folder": lambda row: _folder_cell(_text(row["folder"]), folder),
        "reason": lambda row: TableCell(_text(row["reason"])),
    }
    caption = (
        "Every run of the study; its folder holds its tables and, if it was asked for, its report."
    )
    statuses = ("status", ("done", "failed", "damaged", "missing"))
    choices = (("condition", header.conditions), statuses)
    return _table("runs", caption, cells, tables.runs, header, choices)


def link_to(target: str, folder: Path) -> str | None:
    """Return the address of a file relative to a folder; None if there is no way, as between disks.

    >>> link_to("/out/runs/a b", Path("/out/study")), link_to("/out/script:x", Path("/out"))
    ('../runs/a%20b', './script%3Ax')
    """
    try:
        way = os.path.relpath(target, folder)
    except ValueError:
        return None
    # A first part with a colon would be read as the scheme of an address.
    address = quote(Path(way).as_posix().encode("utf-8", "surrogateescape"))
    return address if address.startswith("..") else f"./{address}"


def _table(
    name: str,
    caption: str,
    cells: Cells,
    frame: pd.DataFrame,
    header: StudyHeader,
    choices: Choices,
) -> SortableTable:
    """Return a table without a column of conditions if there is one, or choices of one value."""
    columns = tuple(one for one in cells if one != "condition" or len(header.conditions) > 1)
    orders = {"target": header.targets, "condition": header.conditions, "arm": header.arms}
    ranks = {
        column: {each: number for number, each in enumerate(order)}
        for column, order in orders.items()
        if column in frame
    }
    ranked = frame.sort_values(list(ranks), key=lambda column: column.map(ranks[str(column.name)]))
    return SortableTable(
        name,
        caption,
        columns,
        tuple(tuple(cells[one](row) for one in columns) for row in ranked.to_dict("records")),
        tuple((column, values) for column, values in choices if len(values) > 1),
    )


def _place(*columns: str) -> Cells:
    def cell(row: Row, column: str) -> TableCell:
        return TableCell(row[column])

    return {column: partial(cell, column=column) for column in columns}


def _reached(reached: str, of: str) -> Cell:
    return lambda row: TableCell(f"{row[reached]} of {row[of]}", float(row[reached]))


def _interval(low: str, high: str) -> Cell:
    return lambda row: _number(row[low], units.interval(row[low], row[high]))


def _cost(statistic: str, *, bound: str = "") -> Cell:
    def cell(row: Row) -> TableCell:
        words = units.text(row[statistic], row["metric"])
        return _number(row[statistic], f">= {words}" if row.get(bound) is True else words)

    return cell


def _shown(column: str, text: Callable[[float], str]) -> Cell:
    return lambda row: _number(row[column], text(_float(row[column])))


def _choices(header: StudyHeader, tables: StudyTables) -> Choices:
    return (
        ("condition", header.conditions),
        ("target", header.targets),
        ("metric", findings.metrics_of(tables)),
    )


def _number(value: Any, text: str) -> TableCell:
    return TableCell(text, _float(value))


def _float(value: Any) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)


def _count(value: float) -> str:
    return quantities.count(None if math.isnan(value) else int(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _folder_cell(target: str, folder: Path) -> TableCell:
    if not target:
        return TableCell(quantities.NOTHING)
    return TableCell(Path(target).name or target, address=link_to(target, folder))
