"""Tables of the measures of papers on client selection: of one run, and of runs side by side.

The measures are methods of `Run`; docs/measures.md defines them. A measure that does not apply to a
run has no row in its report, and `-` in a comparison.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from fleetsim.errors import ScenarioError
from fleetsim.record.saved_run import Run
from fleetsim.report import quantities
from fleetsim.report.figures import opinions
from fleetsim.report.markup import Table
from fleetsim.report.quantities import NOTHING, count, digits, percent, text

FRACTIONS = (0.15, 0.5, 1.0)
"""Shares of the planned rounds at which accuracy is reported."""
SEEN = (0.9, 1.0)
"""Shares of the fleet for which the rounds until they were selected are reported."""
LAST_ROUNDS = 10
CAPTION = (
    "Measures by which papers on client selection compare runs; a measure that does not apply to"
    " this run is left out."
)


class ScoreBudgets(NamedTuple):
    """Time and energy that the reader allows a run, for the comprehensive score."""

    time_s: float
    energy_j: float


def budgets(time_s: float | None, energy_j: float | None) -> ScoreBudgets | None:
    """Return both budgets, or None."""
    if time_s is None and energy_j is None:
        return None
    if time_s is None or energy_j is None:
        raise ScenarioError("--budget-s and --budget-j belong together; give both or neither")
    for option, value in (("--budget-s", time_s), ("--budget-j", energy_j)):
        if not 0.0 < value < np.inf:
            raise ScenarioError(f"{option} {value:g}: must be above 0 and finite")
    return ScoreBudgets(time_s, energy_j)


def table(run: Run) -> Table:
    """Return the measures of one run: measure, value, and the paper that reports it."""
    rows = [*_accuracies(run), *_waiting(run), *_choices(run), *_opinions(run)]
    return Table(("measure", "value", "reported by"), rows, is_text=True)


def accuracies_table(runs: Mapping[str, Run]) -> Table:
    """Return a row per run: accuracy at shares of the planned rounds, and over the last rounds."""
    names = [*(f"accuracy_at_{fraction:g}" for fraction in FRACTIONS), "accuracy_last_10"]
    rows = []
    for label, run in runs.items():
        values = numbers(run)
        deviation = values["accuracy_last_10_deviation"]
        accuracies = [percent(values[name]) for name in names]
        rows.append((label, *accuracies, NOTHING if deviation is None else _points(deviation)))
    columns = [f"at {quantities.target(fraction)} of the rounds" for fraction in FRACTIONS]
    last = f"last {LAST_ROUNDS} rounds, mean"
    return Table(("run", *columns, last, "largest deviation"), rows)


def selection_table(runs: Mapping[str, Run]) -> Table:
    """Return a row per run: waiting for the slowest to compute, and spread of selections."""
    rows = []
    for label, run in runs.items():
        values = numbers(run)
        waited = digits(values["waiting_compute_mean_s"])
        shares = [percent(values[f"{name}_fraction"]) for name in ("selected", "seen")]
        rows.append((label, waited, *shares, *(count(run.rounds_to_seen(of)) for of in SEEN)))
    columns = [f"rounds to select {_share_of_fleet(share)}" for share in SEEN]
    waiting, ratio = "mean waiting, computing alone (s)", "fleet selected per round"
    return Table(("run", waiting, ratio, "ever selected", *columns), rows)


def scores_table(runs: Mapping[str, Run], allowed: ScoreBudgets) -> Table:
    """Return a row per run: used shares of both budgets, and the comprehensive score."""
    rows = []
    for label, run in runs.items():
        rounds = run.rounds
        used = [
            percent(float(rounds[name].iloc[-1]) / budget if len(rounds) else None)
            for name, budget in zip(("finished_at_s", "energy_total_j"), allowed, strict=True)
        ]
        rows.append((label, *used, digits(score(run, allowed))))
    return Table(("run", "of the time budget", "of the energy budget", "score"), rows)


def score(run: Run, allowed: ScoreBudgets) -> float | None:
    """Return the comprehensive score of a run; None without accuracy."""
    return run.comprehensive_score(budget_s=allowed.time_s, budget_j=allowed.energy_j)


def numbers(run: Run) -> dict[str, float | int | None]:
    """Return the measures of a run for a CSV, in SI; None where one does not apply."""
    ending, ratio, seen = run.ending(LAST_ROUNDS), run.selection_ratio(), run.share_seen()
    return {
        **{f"accuracy_at_{fraction:g}": run.accuracy_at(fraction) for fraction in FRACTIONS},
        "accuracy_last_10": None if ending is None else ending.mean,
        "accuracy_last_10_deviation": None if ending is None else ending.largest_deviation,
        "waiting_compute_mean_s": run.average_waiting_s(computing_alone=True),
        "selected_fraction": None if ratio is None or not ratio.size else float(ratio.mean()),
        "seen_fraction": float(seen[-1]) if seen.size else None,
        **{f"rounds_to_seen_{share:g}": run.rounds_to_seen(share) for share in SEEN},
    }


def _share_of_fleet(share: float) -> str:
    return "all" if share == 1.0 else quantities.target(share)


_Rows = Iterator[tuple[str, str, str]]


def _accuracies(run: Run) -> _Rows:
    horizon = run.horizon_rounds
    if horizon is not None and horizon > 1:
        for fraction in FRACTIONS:
            accuracy = run.accuracy_at(fraction)
            if accuracy is not None:
                share = quantities.target(fraction)
                words = f"accuracy at {share} of {horizon:,} rounds"
                yield words, percent(accuracy), "GPFL, Table II"
    ending = run.ending(LAST_ROUNDS)
    if ending is not None and run.rounds["accuracy"].iloc[-LAST_ROUNDS:].notna().sum() > 1:
        words = f"accuracy, mean of the last {LAST_ROUNDS} rounds"
        within = f"within {_points(ending.largest_deviation)}"
        yield words, f"{percent(ending.mean)}, {within}", "GPFL, Table II"


def _waiting(run: Run) -> _Rows:
    for words, is_alone in (
        ("average waiting, whole task", False),
        ("average waiting, computing alone", True),
    ):
        waited_s = run.average_waiting_s(computing_alone=is_alone)
        if waited_s is not None:
            yield words, text(waited_s, "s"), "FedGRA, VI-D"


def _choices(run: Run) -> _Rows:
    ratio, seen = run.selection_ratio(), run.share_seen()
    if not seen.size:
        return
    if ratio is not None:
        low, mean, high = (percent(float(f())) for f in (ratio.min, ratio.mean, ratio.max))
        spread = f", {low} to {high}" if low != high else ""
        yield "fleet selected in a round", f"{mean}{spread}", "FedGCS, Fig. 6"
    yield "fleet ever selected", percent(seen[-1]), "GPFL, Fig. 4"
    for share in SEEN:
        number = run.rounds_to_seen(share)
        value = "never" if number is None else f"{number:,}"
        yield f"rounds to select {_share_of_fleet(share)}", value, "GPFL, VI-C"


def _opinions(run: Run) -> _Rows:
    entries = run.opinions()
    if len(entries):
        means = opinions.averages(entries)
        words = f"mean opinion after round {means.index[-1]:,}"
        yield words, percent(float(means.iloc[-1])), "Tong et al., equation 8"


def _points(fraction: float) -> str:
    return f"{fraction * 100:.1f} points"
