"""Tables of a comparison, with a row per run."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from fleetsim.record.prices import AMOUNTS, Bill, Prices
from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.markup import Table
from fleetsim.report.pages import ledger_tables, measures, regret
from fleetsim.report.pages.measures import ScoreBudgets
from fleetsim.report.pages.regret import Regrets
from fleetsim.report.pages.scenario_differences import ABSENT, Difference
from fleetsim.report.pages.summary import Totals, run_record
from fleetsim.report.quantities import NOTHING
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
        run, totals = entry.run, entry.totals
        row: dict[str, Any] = {
            "label": entry.label,
            "folder": str(run.folder),
            "status": run.manifest.status,
            "seed": run.manifest.seed,
            **({"evidence": comparison.evidence} if comparison.evidence else {}),
            "rounds": totals.num_rounds,
            "virtual_s": totals.virtual_s,
            "final_accuracy": totals.final_accuracy,
            "best_accuracy": totals.best_accuracy,
            "energy_j": totals.energy_j,
            "energy_wasted_j": totals.wasted_j,
            "wasted_fraction": totals.wasted_fraction,
            "waiting_mean_s": totals.waiting_mean_s,
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
    table = pd.DataFrame(rows)
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
    shown = [*cost_tables(comparison), *detail_tables(comparison)]
    blocks += [_aligned(heading, table) for heading, _, table in shown]
    return "\n\n".join(blocks)


def worlds_message(comparison: RunComparison) -> str:
    """Return the warning about runs of different worlds."""
    differ = quantities.some(comparison.world_differences, MAX_KEYS)
    return (
        f"these runs differ in {differ}. Different results need not come from the selector or the"
        " server."
    )


def cost_tables(comparison: RunComparison) -> list[tuple[str, str, Table]]:
    """Return heading, caption and table of totals, and of the costs of targets."""
    columns: dict[str, Callable[[Entry], str]] = {
        "run": lambda entry: entry.label,
        "final accuracy": lambda entry: quantities.percent(entry.totals.final_accuracy),
        "best accuracy": lambda entry: quantities.percent(entry.totals.best_accuracy),
        "rounds": lambda entry: f"{entry.totals.num_rounds:,}",
        "virtual time (s)": lambda entry: quantities.digits(entry.totals.virtual_s),
        "energy (J)": lambda entry: quantities.digits(entry.totals.energy_j),
        "wasted (J)": lambda entry: quantities.digits(entry.totals.wasted_j),
        "wasted": lambda entry: quantities.percent(entry.totals.wasted_fraction),
        "mean waiting (s)": lambda entry: quantities.digits(entry.totals.waiting_mean_s),
    }
    if comparison.evidence:
        columns["evidence"] = lambda entry: comparison.evidence
    totals = Table.of(columns, comparison.entries)
    result = [("Totals", "Each run as far as it is recorded.", totals)]
    if comparison.targets:
        until = "until each accuracy was first reached; - is never."
        for heading, caption, measure in (
            ("Seconds to accuracy", f"Virtual seconds {until}", Run.time_to_accuracy),
            ("Joules to accuracy", f"Joules of the whole fleet {until}", Run.energy_to_accuracy),
            ("Rounds to accuracy", f"Rounds {until}", Run.rounds_to_accuracy),
        ):
            result.append((heading, caption, _reached(comparison, measure)))
    return result


def detail_tables(comparison: RunComparison) -> list[tuple[str, str, Table]]:
    """Return heading, caption and table of measures of papers, energy, money and carbon."""
    result = _papers(comparison)
    components = ledger_tables.component_table(comparison.ledgers)
    result.append(("Joules by component", "Energy of each run by component.", components))
    caption = "Used energy went into a new model or a selection, unused was only delivered."
    outcomes = ledger_tables.outcome_table(comparison.ledgers)
    result.append(("Joules by energy outcome", caption, outcomes))
    if comparison.prices is not None:
        caption = f"Prices: {comparison.prices.title}."
        amounts = comparison.prices.amounts
        rows = [
            (entry.label, *(quantities.digits(entry.bill.total(amount)) for amount in amounts))
            for entry in comparison.entries
            if entry.bill is not None
        ]
        table = Table(("run", *(AMOUNTS[amount] for amount in amounts)), rows)
        result.append(("Money and carbon", caption, table))
    return result


def _papers(comparison: RunComparison) -> list[tuple[str, str, Table]]:
    runs = comparison.runs
    result = []
    if any(run.rounds["accuracy"].notna().any() for run in runs.values()):
        caption = (
            "Accuracy of the model after a share of the planned rounds (GPFL, Table II); a run that"
            " stopped because it was accurate enough keeps its last model."
        )
        result.append(("Accuracy along the run", caption, measures.accuracies_table(runs)))
    caption = (
        "Waiting of the fastest for the slowest (FedGRA), selected share of the fleet (FedGCS), and"
        " share of the fleet ever selected (GPFL); - is never, or does not apply to a buffered"
        " server."
    )
    result.append(("Selection", caption, measures.selection_table(runs)))
    if comparison.regrets is not None:
        caption = regret.caption(comparison.regrets)
        result.append(("Regret", caption, regret.table(comparison.regrets)))
    if comparison.budgets is not None:
        allowed = comparison.budgets
        caption = (
            f"Budgets of {quantities.text(allowed.time_s, 's')} and"
            f" {quantities.text(allowed.energy_j, 'j')} for a run: its last accuracy, times the"
            " square of the budget over what was spent for each that was exceeded (FedGCS, equation"
            " 1)."
        )
        result.append(("Comprehensive score", caption, measures.scores_table(runs, allowed)))
    return result


def _reached(
    comparison: RunComparison, measure: Callable[[Run, float], int | float | None]
) -> Table:
    """Return a row per run and a column per target; the smallest value is marked."""
    columns = [
        [measure(entry.run, target) for entry in comparison.entries]
        for target in comparison.targets
    ]
    has_best = len(comparison.entries) > 1 and not comparison.world_differences
    smallest = [min((v for v in values if v is not None), default=math.nan) for values in columns]
    return Table(
        ("run", *map(quantities.target, comparison.targets)),
        [
            (entry.label, *(_number(values[row]) for values in columns))
            for row, entry in enumerate(comparison.entries)
        ],
        best=frozenset(
            (row, column + 1)
            for column, values in enumerate(columns)
            for row, value in enumerate(values)
            if has_best and value == smallest[column]
        ),
    )


def differences_table(comparison: RunComparison) -> Table:
    """Return a row per key that differs and a column per run."""
    return Table(
        ("key", *(entry.label for entry in comparison.entries)),
        [
            (
                spelled(difference.path),
                *(difference.shown(index) for index in range(len(comparison.entries))),
            )
            for difference in comparison.differences
        ],
        is_text=True,
    )


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


def _number(value: int | float | None) -> str:
    return quantities.count(value) if isinstance(value, int) else quantities.digits(value)


def _aligned(heading: str, table: Table) -> str:
    """Return aligned text: the first column to the left, numbers to the right."""
    lines = [[heading, *table.columns[1:]], *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
        for line in lines
    )
