"""Tables of a comparison, with a row per run."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fleetsim.record.measures.ledger import ENERGY_OUTCOMES
from fleetsim.record.prices import AMOUNTS, Bill, Prices
from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.figures.ledger import COMPONENT_NAMES
from fleetsim.report.markup import Table
from fleetsim.report.pages import ledger_tables, measures, regret
from fleetsim.report.pages.measures import ScoreBudgets
from fleetsim.report.pages.regret import Regrets
from fleetsim.report.pages.scenario_differences import ABSENT, Difference
from fleetsim.report.pages.summary import Totals, run_record
from fleetsim.report.quantities import NOTHING, count, digits, percent, some
from fleetsim.schema.strict_yaml import spelled

ONE_SEED = "one seed: no evidence"
NO_EVIDENCE = (
    f"{ONE_SEED}. Another seed may well reverse any difference between these runs. fleetsim study"
    " repeats them over many seeds and says which differences are more than chance."
)
"""Warning on runs of which each has one seed."""

MAX_KEYS = 6
"""Number of differences that a message names."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the compared runs."""

    label: str
    run: Run
    totals: Totals
    ledger: pd.DataFrame = field(compare=False, repr=False)
    bill: Bill | None = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Runs side by side."""

    entries: tuple[Entry, ...]
    targets: tuple[float, ...]
    """Accuracies (fractions), ascending."""
    differences: tuple[Difference, ...]
    world_differences: tuple[str, ...]
    """Differences between the worlds; empty if they are equal."""
    notes: tuple[str, ...]
    """Notes on single runs."""
    prices: Prices | None = None
    budgets: ScoreBudgets | None = None
    regrets: Regrets | None = field(default=None, compare=False, repr=False)
    """Regret against the best fixed set; None if no run has fixed clients."""

    @property
    def evidence(self) -> str:
        """Evidence that differences are no chance: `ONE_SEED`; empty for a single run."""
        return ONE_SEED if len(self.entries) > 1 else ""

    @property
    def runs(self) -> dict[str, Run]:
        """Every run by its label."""
        return {entry.label: entry.run for entry in self.entries}

    @property
    def ledgers(self) -> dict[str, pd.DataFrame]:
        """The ledger of every run by its label."""
        return {entry.label: entry.ledger for entry in self.entries}


def frame(comparison: RunComparison) -> pd.DataFrame:
    """Return the numbers, one row per run, in SI; null where a number does not exist."""
    rows = []
    for entry in comparison.entries:
        run = entry.run
        row: dict[str, Any] = {
            "label": entry.label,
            "folder": str(run.folder),
            "status": run.manifest.status,
            "seed": run.manifest.seed,
            **({"evidence": comparison.evidence} if comparison.evidence else {}),
            **asdict(entry.totals),
            **measures.numbers(run),
        }
        for target in comparison.targets:
            row[f"time_to_{target:g}_s"] = run.time_to_accuracy(target)
            row[f"energy_to_{target:g}_j"] = run.energy_to_accuracy(target)
            row[f"rounds_to_{target:g}"] = run.rounds_to_accuracy(target)
        if comparison.regrets is not None:
            curve = comparison.regrets.curves.get(entry.label)
            row["regret"] = None if curve is None else float(curve[-1])
        if comparison.budgets is not None:
            row["comprehensive_score"] = measures.score(run, comparison.budgets)
        if entry.bill is not None:
            row |= {amount: entry.bill.total(amount) for amount in entry.bill.prices.amounts}
        rows.append(row)
    names = {"num_rounds": "rounds", "wasted_j": "energy_wasted_j"}
    table = pd.DataFrame(rows).rename(columns=names).drop(columns=["num_selected", "num_delivered"])
    counts = [f"rounds_to_{target:g}" for target in comparison.targets]
    counts += [f"rounds_to_seen_{share:g}" for share in measures.SEEN]
    return table.astype(dict.fromkeys(counts, "Int64"))


def record(comparison: RunComparison) -> dict[str, Any]:
    """Return the comparison for scripts; docs/commands.md defines every key."""
    return {
        "runs": [
            {"label": entry.label, **run_record(entry.run, comparison.targets)}
            for entry in comparison.entries
        ],
        "differences": {
            spelled(difference.path): [None if v is ABSENT else v for v in difference.values]
            for difference in comparison.differences
        },
        "different_worlds": comparison.world_differences,
        "notes": [*comparison.notes, *([NO_EVIDENCE] if comparison.evidence else [])],
    }


def text_table(comparison: RunComparison) -> str:
    """Return the tables for a terminal."""
    lines = (
        [f"DIFFERENT WORLDS: {worlds_message(comparison)}"] if comparison.world_differences else []
    )
    lines += [f"note: {note}" for note in comparison.notes]
    lines += [f"note: {NO_EVIDENCE}"] if comparison.evidence else []
    blocks = ["\n".join(lines)] if lines else []
    shown = cost_tables(comparison) | detail_tables(comparison)
    blocks += [_aligned(heading, table) for heading, table in shown.items()]
    return "\n\n".join(blocks)


def worlds_message(comparison: RunComparison) -> str:
    """Return the warning about runs of different worlds."""
    differ = some(comparison.world_differences, MAX_KEYS)
    return (
        f"these runs differ in {differ}. Different results need not come from the selector or the"
        " server."
    )


def cost_tables(comparison: RunComparison) -> dict[str, Table]:
    """Return tables of totals, and of the costs of targets, by heading."""
    columns: dict[str, Callable[[Entry], str]] = {
        "run": lambda entry: entry.label,
        "final accuracy": lambda entry: percent(entry.totals.final_accuracy),
        "best accuracy": lambda entry: percent(entry.totals.best_accuracy),
        "rounds": lambda entry: f"{entry.totals.num_rounds:,}",
        "virtual time (s)": lambda entry: digits(entry.totals.virtual_s),
        "energy (J)": lambda entry: digits(entry.totals.energy_j),
        "wasted (J)": lambda entry: digits(entry.totals.wasted_j),
        "wasted": lambda entry: percent(entry.totals.wasted_fraction),
        "mean waiting (s)": lambda entry: digits(entry.totals.waiting_mean_s),
    }
    if comparison.evidence:
        columns["evidence"] = lambda entry: comparison.evidence
    result = {"Totals": Table.of(columns, comparison.entries)}
    if comparison.targets:
        result["Seconds to accuracy"] = _reached(comparison, Run.time_to_accuracy)
        result["Joules to accuracy"] = _reached(comparison, Run.energy_to_accuracy)
        result["Rounds to accuracy"] = _reached(comparison, Run.rounds_to_accuracy, count)
    return result


def detail_tables(comparison: RunComparison) -> dict[str, Table]:
    """Return tables of measures of papers, energy, money and carbon, by heading."""
    runs, ledgers = comparison.runs, comparison.ledgers
    result = {}
    if any(run.rounds["accuracy"].notna().any() for run in runs.values()):
        result["Accuracy along the run"] = measures.accuracies_table(runs)
    result["Selection"] = measures.selection_table(runs)
    if comparison.regrets is not None:
        result["Regret"] = regret.table(comparison.regrets)
    if comparison.budgets is not None:
        result["Comprehensive score"] = measures.scores_table(runs, comparison.budgets)
    by_component = ledger_tables.runs_table(ledgers, "component", COMPONENT_NAMES)
    outcomes = {outcome: outcome for outcome in ENERGY_OUTCOMES}
    result["Joules by component"] = by_component
    result["Joules by energy outcome"] = ledger_tables.runs_table(
        ledgers, "energy_outcome", outcomes
    )
    if comparison.prices is not None:
        amounts = comparison.prices.amounts
        rows = [
            (entry.label, *(digits(entry.bill.total(amount)) for amount in amounts))
            for entry in comparison.entries
            if entry.bill is not None
        ]
        columns = ("run", *(AMOUNTS[amount] for amount in amounts))
        result["Money and carbon"] = Table(columns, rows)
    return result


def _reached(
    comparison: RunComparison,
    measure: Callable[[Run, float], int | float | None],
    shown: Callable[[float], str] = digits,
) -> Table:
    """Return a row per run and a column per target; the smallest value is marked."""
    reached = {
        at: {entry.label: measure(entry.run, at) for entry in comparison.entries}
        for at in comparison.targets
    }
    values = pd.DataFrame(reached, dtype=np.float64)
    has_best = len(values) > 1 and not comparison.world_differences
    best = np.argwhere((values == values.min()).to_numpy() & has_best).tolist()
    columns = ("run", *map(quantities.target, comparison.targets))
    rows = list(values.map(shown).itertuples(name=None))
    return Table(columns, rows, best=frozenset((row, column + 1) for row, column in best))


def differences_table(comparison: RunComparison) -> Table:
    """Return a row per key that differs and a column per run."""
    number = range(len(comparison.entries))
    rows = [(spelled(each.path), *map(each.shown, number)) for each in comparison.differences]
    return Table(("key", *comparison.runs), rows, is_text=True)


def runs_table(comparison: RunComparison) -> Table:
    """Return folder, status, seed and digest of each run."""
    columns: dict[str, Callable[[Entry], str]] = {
        "run": lambda entry: entry.label,
        "folder": lambda entry: str(entry.run.folder),
        "status": lambda entry: entry.run.manifest.status,
        "seed": lambda entry: str(entry.run.manifest.seed),
        "digest": lambda entry: (entry.run.manifest.digest or NOTHING)[:12],
    }
    return Table.of(columns, comparison.entries, is_text=True)


def _aligned(heading: str, table: Table) -> str:
    """Return aligned text: the first column to the left, numbers to the right."""
    lines = [[heading, *table.columns[1:]], *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
        for line in lines
    )
