"""Tables of the page: cells with text and the value to sort by."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from fleetsim.report import quantities
from fleetsim.studies.page import findings, units
from fleetsim.studies.study_tables import StudyHeader, StudyTables


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


@dataclass(frozen=True, slots=True)
class SortableTable:
    """A table whose columns can be sorted, with choices by which its rows are filtered."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Columns to filter by, and their values."""


def verdicts(tables: StudyTables, header: StudyHeader) -> SortableTable:
    """Return the table of verdicts."""
    rows = []
    for row in _ordered(tables.verdicts, header):
        more = row["num_more_seeds"]
        is_known = more is not None and not pd.isna(more)
        rows.append(
            (
                TableCell(row["arm"]),
                TableCell(row["condition"]),
                TableCell(row["target"]),
                TableCell(row["currency"]),
                TableCell(row["kind"], kind=row["kind"]),
                _number(row["ratio"], ratio(row["ratio"])),
                _number(row["low"], interval(row["low"], row["high"])),
                _number(row["bca_low"], interval(row["bca_low"], row["bca_high"])),
                *(
                    _number(row[name], units.p_text(float(row[name])))
                    for name in ("p_holm", "p_t", "p_wilcoxon", "p_sign")
                ),
                TableCell(f"{row['num_reached']} of {row['num_pairs']}", float(row["num_reached"])),
                TableCell(
                    f"{row['num_baseline_reached']} of {row['num_pairs']}",
                    float(row["num_baseline_reached"]),
                ),
                _number(
                    float(more) if is_known else math.nan,
                    quantities.count(int(more)) if is_known else quantities.NOTHING,
                ),
            )
        )
    columns = (
        "arm", "condition", "target", "currency", "verdict", "ratio", "95 % t interval",
        "95 % BCa interval", "p (t, Holm)", "p (t)", "p (Wilcoxon)", "p (sign)", "reached",
        "baseline reached", "more seeds",
    )  # fmt: skip
    return _without_conditions(
        SortableTable(
            "verdicts",
            f"Costs of each arm as a multiple of those of {header.baseline}, paired by seed."
            " p-values adjusted by Holm's method decide. More seeds: how many further ones would"
            " settle it.",
            columns,
            tuple(rows),
            _choices(header, tables),
        ),
        header,
    )


def summaries(tables: StudyTables, header: StudyHeader) -> SortableTable:
    """Return the table of costs over seeds."""
    rows = []
    for row in _ordered(tables.summaries, header):
        currency = row["currency"]
        bound = ">= " if row.get("is_median_bound") is True else ""
        rows.append(
            (
                TableCell(row["arm"]),
                TableCell(row["condition"]),
                TableCell(row["target"]),
                TableCell(currency),
                TableCell(f"{row['num_reached']} of {row['num_seeds']}", float(row["num_reached"])),
                *(
                    _number(
                        row[name],
                        (bound if name == "median" else "") + units.text(row[name], currency),
                    )
                    for name in ("mean", "std", "median", "least", "most", "restricted_mean")
                ),
            )
        )
    columns = (
        "arm", "condition", "target", "currency", "reached", "mean", "standard deviation",
        "median", "least", "most", "restricted mean",
    )  # fmt: skip
    return _without_conditions(
        SortableTable(
            "summaries",
            "Costs until the target was reached, over seeds. A statistic that runs without the"
            " target leave open is -. The restricted mean counts such runs with what they had spent"
            " when they ended.",
            columns,
            tuple(rows),
            _choices(header, tables),
        ),
        header,
    )


def runs(tables: StudyTables, header: StudyHeader, folder: Path) -> SortableTable:
    """Return the table of runs, with links relative to the folder of the page."""
    rows = [
        (
            TableCell(row["arm"]),
            TableCell(row["condition"]),
            TableCell(str(row["seed"]), float(row["seed"])),
            TableCell(row["status"], kind=row["status"]),
            _number(row["rounds"], _count(row["rounds"])),
            _number(row["virtual_s"], units.text(row["virtual_s"], "seconds")),
            _number(row["energy_j"], units.text(row["energy_j"], "joules")),
            _number(row["final_accuracy"], quantities.percent(_float(row["final_accuracy"]))),
            TableCell(_text(row["platform"]) or quantities.NOTHING),
            _folder_cell(_text(row["folder"]), folder),
            TableCell(_text(row["reason"])),
        )
        for row in _ordered(tables.runs, header)
    ]
    columns = (
        "arm", "condition", "seed", "status", "rounds", "virtual time", "energy",
        "final accuracy", "platform", "folder", "reason",
    )  # fmt: skip
    return _without_conditions(
        SortableTable(
            "runs",
            "Every run of the study; its folder holds its tables and, if it was asked for, its"
            " report.",
            columns,
            tuple(rows),
            (
                ("condition", header.conditions),
                ("status", ("done", "failed", "damaged", "missing")),
            ),
        ),
        header,
    )


def ratio(value: float) -> str:
    """Return a ratio to the baseline.

    >>> ratio(0.8412), ratio(12.345), ratio(float("nan"))
    ('0.84', '12.3', '-')
    """
    if math.isnan(value):
        return quantities.NOTHING
    return f"{value:.2f}" if 0.1 <= value < 10 else quantities.digits(value)


def interval(low: float, high: float) -> str:
    """Return an interval of ratios.

    >>> interval(0.61, 1.149)
    '[0.61, 1.15]'
    """
    if math.isnan(low) or math.isnan(high):
        return quantities.NOTHING
    return f"[{ratio(low)}, {ratio(high)}]"


def link_to(target: str, folder: Path) -> str | None:
    """Return the address of a file relative to a folder; None if there is no way, as between disks.

    >>> link_to("/out/runs/a b", Path("/out/study"))
    '../runs/a%20b'
    """
    try:
        way = os.path.relpath(target, folder)
    except ValueError:
        return None
    # A first part with a colon would be read as the scheme of an address.
    address = quote(Path(way).as_posix().encode("utf-8", "surrogateescape"))
    return address if address.startswith("..") else f"./{address}"


def _ordered(frame: pd.DataFrame, header: StudyHeader) -> Iterable[dict[str, Any]]:
    """Return the rows as dictionaries, in the order of the study file."""
    ranked = frame.assign(
        _condition=frame["condition"].map(_ranks(header.conditions)),
        _arm=frame["arm"].map(_ranks(header.arms)),
        _target=frame["target"].map(_ranks(header.targets)) if "target" in frame else 0,
    )
    keys = ["_target", "_condition", "_arm"]
    ranked = ranked.sort_values(keys, kind="stable").drop(columns=keys)
    return [{str(key): value for key, value in row.items()} for row in ranked.to_dict("records")]


def _ranks(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _without_conditions(table: SortableTable, header: StudyHeader) -> SortableTable:
    """Leave the column of conditions out where there is one, and choices of one value."""
    choices = tuple((name, values) for name, values in table.choices if len(values) > 1)
    if len(header.conditions) > 1:
        return SortableTable(table.name, table.caption, table.columns, table.rows, choices)
    at = table.columns.index("condition")
    return SortableTable(
        table.name,
        table.caption,
        table.columns[:at] + table.columns[at + 1 :],
        tuple(row[:at] + row[at + 1 :] for row in table.rows),
        choices,
    )


def _choices(header: StudyHeader, tables: StudyTables) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (
        ("condition", header.conditions),
        ("target", header.targets),
        ("currency", findings.currencies_of(tables)),
    )


def _number(value: Any, text: str) -> TableCell:
    return TableCell(text, _float(value))


def _float(value: Any) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)


def _count(value: Any) -> str:
    return quantities.NOTHING if value is None or pd.isna(value) else quantities.count(int(value))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _folder_cell(target: str, folder: Path) -> TableCell:
    if not target:
        return TableCell(quantities.NOTHING)
    return TableCell(Path(target).name or target, address=link_to(target, folder))
