"""The page of a search: the best trial and its command, figures of all trials, and their table."""

import json
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from fleetsim.quoting import counted
from fleetsim.record import atomic_files
from fleetsim.report import csv_text, markup, quantities
from fleetsim.report.figures import style
from fleetsim.report.markup import Picture, Table
from fleetsim.schema.strict_yaml import parse_value
from fleetsim.studies.page import units
from fleetsim.studies.search.settings import SearchSettings
from fleetsim.studies.search.space import Space, chosen, ends
from fleetsim.studies.search.trials import Trial, best_of

PAGE = "search.html"
TABLE = "trials.csv"
_MOST_COLUMNS = 3
_MARKS = {
    "complete": ("o", style.BLUE, style.BLUE),
    "over the bound": ("s", "none", style.VERMILLION),
    "target missed": ("^", "none", style.PURPLE),
    "pruned": ("x", style.MIDDLE_GREY, style.MIDDLE_GREY),
}
"""Marker, its face and its edge, by the outcome of a trial."""
_LOG_SPAN = 4.0
"""Ratio of the highest to the least cost from which an axis of costs is logarithmic."""


def write_page(space: Space, trials: Sequence[Trial], folder: Path, *, optuna: str) -> Path:
    """Write `search.html` and `trials.csv` into the folder of a search; return the page."""
    settings, best = space.settings, best_of(trials, space.settings.objective)
    run = [trial for trial in trials if trial.seeds]
    pictures = []
    if run:
        words = settings.objective.words
        pictures = [
            Picture(
                style.encode(_over_trials(settings, run, best), ["svg"])["svg"],
                f"Cost of each trial in {words}",
                "Geometric mean over the seeds. Line: least cost so far of a trial that reached"
                " the target in all seeds within the bound. A pruned trial has the mean of its"
                " first seeds; where the target was missed the true cost is higher.",
            ),
            Picture(
                style.encode(_slices(settings, run, best), ["svg"])["svg"],
                f"{words} against each key",
                "A point is a trial, which changes the other keys too. A large ring marks the best"
                " trial.",
            ),
        ]
    atomic_files.make_folder(folder, hint=markup.HINT)
    frame = pd.DataFrame([_row(settings, trial) for trial in trials])
    atomic_files.write(folder / TABLE, csv_text.encoded(frame), hint=markup.HINT)
    path = folder / PAGE
    markup.write_static(
        path,
        "search.html.j2",
        folder="studies/search",
        settings=settings,
        subtitle=_subtitle(settings, trials),
        finding=finding(space, trials),
        best=best,
        values=Table(("key", "value"), [] if best is None else _values(space, best), is_text=True),
        command="" if best is None else command(space, best),
        pictures=pictures,
        table=_table(settings, trials, best),
        setup=Table(("what", "is"), list(_setup(space, optuna)), is_text=True),
    )
    return path


def finding(space: Space, trials: Sequence[Trial]) -> str:
    """Return in a sentence which trial is the best, and how it compares with the scenario."""
    settings = space.settings
    objective, best = settings.objective, best_of(trials, settings.objective)
    if best is None:
        return "No trial is complete."
    cost = units.text(best.costs()[0], objective.metric)
    if not best.is_feasible(objective):
        why = best.outcome(objective)
        return f"No trial reached its aim; the nearest is trial {best.number}, {cost}: {why}."
    words = f"Trial {best.number} is the best: {cost} ({objective.words})"
    if objective.bound is not None:
        words += f", with {units.text(best.costs()[1], objective.bound.metric)}"
    first = trials[0]
    if first.parameters == space.own and first.state == "complete" and first is not best:
        ratio = best.costs()[0] / first.costs()[0]
        words += f"; {ratio:.2f} times the cost of the scenario as it is (trial 0)"
    return f"{words}."


def command(space: Space, trial: Trial) -> str:
    """Return the command that runs a trial with its first seed."""
    words = ["fleetsim", "run", space.base, "--seed", str(space.settings.seeds[0])]
    words += [] if space.settings.train else ["--no-train"]
    for change in space.changes(trial.parameters):
        words += ["--set", f"{change.key}={_as_value(change.value)}"]
    for plugin in space.plugins:
        words += ["--plugin", plugin.name]
    return shlex.join(words)


def described(settings: SearchSettings, trial: Trial) -> str:
    """Return a trial in one line: its costs or its reason, and its parameters."""
    objective = settings.objective
    shown = ", ".join(f"{key}={value}" for key, value in trial.parameters.items())
    outcome = trial.outcome(objective)
    if trial.state == "failed":
        return f"trial {trial.number}: failed: {trial.reason} ({shown})"
    spent = zip(trial.costs(), objective.metrics, strict=True)
    costs = ", ".join(_cost_text(trial, cost, metric) for cost, metric in spent)
    seeds = counted(len(trial.seeds), "seed")
    state = "" if outcome == "complete" else f", {outcome} after {seeds}"
    return f"trial {trial.number}: {costs}{state} ({shown})"


def _as_value(value: object) -> str:
    """Return a value of an override as text of a command line."""
    if isinstance(value, str) and parse_value(value, "value") == value:
        return value
    return json.dumps(value)


def _cost_text(trial: Trial, cost: float, metric: str) -> str:
    bound = "" if trial.num_reached == len(trial.seeds) else ">= "
    return f"{bound}{units.text(cost, metric)}"


def _values(space: Space, trial: Trial) -> list[tuple[str, str]]:
    keys = space.settings.search
    return [(key, _as_value(chosen(keys[key], value))) for key, value in trial.parameters.items()]


def _subtitle(settings: SearchSettings, trials: Sequence[Trial]) -> str:
    outcomes = [trial.outcome(settings.objective) for trial in trials]
    counts = [f"{outcomes.count(each)} {each}" for each in dict.fromkeys(outcomes)]
    seeds = counted(len(settings.seeds), "seed")
    return f"{len(trials)} of {settings.trials} trials, {seeds} each: {', '.join(counts)}"


def _setup(space: Space, optuna: str) -> Iterator[tuple[str, str]]:
    settings = space.settings
    objective = settings.objective
    yield "scenario", settings.scenario
    for key, value in settings.overrides.items():
        yield f"override of {key}", _as_value(value)
    for key, each in settings.search.items():
        values = " to ".join(map(str, ends(each)))
        if each.choices is not None:
            values = ", ".join(map(str, ends(each)))
        log, step = ", logarithmic" if each.log else "", f", step {each.step}" if each.step else ""
        yield f"range of {key}", f"{values}{log}{step}"
    yield "objective", f"least {objective.words}, geometric mean over seeds"
    if objective.bound is not None:
        yield "bound", f"{units.text(objective.bound.most, objective.bound.metric)} at most"
    yield "seeds", ", ".join(map(str, settings.seeds))
    ratio = settings.prune_ratio
    yield "pruning", "none" if ratio is None else f"above {ratio:g} times the best, same seeds"
    batch, seed = settings.batch, settings.sampler_seed
    yield "sampler", f"Optuna {optuna}, TPE, batches of {batch}, sampler seed {seed}"


def _row(settings: SearchSettings, trial: Trial) -> dict[str, object]:
    """Return a row of the CSV."""
    spent = trial.costs() if trial.seeds else [math.nan] * len(settings.objective.metrics)
    return {
        "trial": trial.number,
        "outcome": trial.outcome(settings.objective),
        **trial.parameters,
        **dict(zip(settings.objective.metrics, spent, strict=True)),
        "num_seeds": len(trial.seeds),
        "num_reached": trial.num_reached,
        "reason": trial.reason,
    }


def _table(settings: SearchSettings, trials: Sequence[Trial], best: Trial | None) -> Table:
    def cost_at(place: int, metric: str) -> Callable[[Trial], str]:
        return lambda trial: (
            _cost_text(trial, trial.costs()[place], metric) if trial.seeds else quantities.NOTHING
        )

    def value_of(key: str) -> Callable[[Trial], str]:
        return lambda trial: str(trial.parameters[key])

    columns: dict[str, Callable[[Trial], str]] = {
        "trial": lambda trial: str(trial.number),
        "outcome": lambda trial: trial.outcome(settings.objective),
        **{key: value_of(key) for key in settings.search},
        **{each: cost_at(place, each) for place, each in enumerate(settings.objective.metrics)},
        "seeds": lambda trial: f"{len(trial.seeds)} of {len(settings.seeds)}",
        "reached": lambda trial: f"{trial.num_reached} of {len(trial.seeds)}",
        "reason": lambda trial: trial.reason,
    }
    if not any(trial.reason for trial in trials):
        del columns["reason"]
    table = Table.of(columns, trials)
    rows = [place for place, trial in enumerate(trials) if trial is best]
    cells = frozenset((row, column) for row in rows for column in range(len(columns)))
    return Table(table.columns, table.rows, best=cells)


@style.house_style()
def _over_trials(settings: SearchSettings, trials: Sequence[Trial], best: Trial | None) -> Figure:
    """Draw the cost of each trial, and the least so far."""
    objective = settings.objective
    figure = style.new_figure(style.WIDTH_IN, 4.2, title="Cost of each trial")
    axes = figure.subplots()
    _points(axes, settings, trials, [trial.number for trial in trials], best)
    good = [trial for trial in trials if trial.is_feasible(objective)]
    if good:
        scale, _ = _cost_unit(settings, trials)
        least = np.minimum.accumulate([trial.costs()[0] / scale for trial in good])
        x, y = [trial.number for trial in good], least.tolist()
        last = trials[-1].number
        axes.step([*x, last], [*y, y[-1]], where="post", color=style.GREEN, label="least so far")
    axes.set_xlabel("trial")
    style.in_whole_numbers(axes.xaxis)
    _cost_axis(axes, settings, trials)
    style.legend_below(figure, axes)
    return figure


@style.house_style()
def _slices(settings: SearchSettings, trials: Sequence[Trial], best: Trial | None) -> Figure:
    """Draw the costs against each key, and against the bounded metric."""
    bound = settings.objective.bound
    num = len(settings.search) + (bound is not None)
    num_columns = min(_MOST_COLUMNS, num)
    num_rows = math.ceil(num / num_columns)
    figure = style.new_figure(style.WIDTH_IN, 0.8 + 3.2 * num_rows, title="Cost against each key")
    cells = figure.subplots(num_rows, num_columns, sharey=True, squeeze=False).ravel()
    for axes, (key, each) in zip(cells, settings.search.items(), strict=False):
        values = [trial.parameters[key] for trial in trials]
        if each.choices is not None:
            names = ends(each)
            values = [names.index(value) for value in values]
            shown = [units.shortened(str(name), 18) for name in names]
            axes.set_xticks(range(len(names)), shown, rotation=30, ha="right")
            axes.set_xlim(-0.5, len(names) - 0.5)
        elif each.log:
            _log_axis(axes, "x")
        _points(axes, settings, trials, [float(value) for value in values], best)
        axes.set_xlabel(key)
    if bound is not None:
        axes = cells[num - 1]
        spent = [trial.costs()[1] for trial in trials]
        scale, unit = units.of_axis(max(spent), bound.metric)
        _points(axes, settings, trials, [each / scale for each in spent], best)
        axes.axvline(bound.most / scale, color=style.VERMILLION, linestyle=":", label="bound")
        axes.set_xlabel(f"{bound.metric} ({unit})" if unit else bound.metric)
    for axes in cells[::num_columns]:
        _cost_axis(axes, settings, trials)
    for axes in cells[num:]:
        axes.set_axis_off()
    style.legend_below(figure, cells[num - 1])
    return figure


def _points(
    axes: Axes,
    settings: SearchSettings,
    trials: Sequence[Trial],
    x: Sequence[float],
    best: Trial | None,
) -> None:
    scale, _ = _cost_unit(settings, trials)
    y = [trial.costs()[0] / scale for trial in trials]
    outcomes = [trial.outcome(settings.objective) for trial in trials]
    for outcome, (marker, face, edge) in _MARKS.items():
        places = [place for place, each in enumerate(outcomes) if each == outcome]
        if places:
            looks = {"c": edge} if marker == "x" else {"facecolors": face, "edgecolors": edge}
            xs, ys = [x[place] for place in places], [y[place] for place in places]
            axes.scatter(xs, ys, s=26, marker=marker, label=outcome, zorder=3, **looks)
    for place, trial in enumerate(trials):
        if trial is best:
            ring = {"facecolors": "none", "edgecolors": style.ORANGE, "linewidths": 2.0}
            axes.scatter(x[place], y[place], s=150, label="best", zorder=4, **ring)


def _cost_unit(settings: SearchSettings, trials: Sequence[Trial]) -> tuple[float, str]:
    return units.of_axis(max(trial.costs()[0] for trial in trials), settings.objective.metric)


def _cost_axis(axes: Axes, settings: SearchSettings, trials: Sequence[Trial]) -> None:
    _, unit = _cost_unit(settings, trials)
    words = settings.objective.words
    axes.set_ylabel(f"{words} ({unit})" if unit else words)
    spent = [trial.costs()[0] for trial in trials]
    if max(spent) > _LOG_SPAN * min(spent):
        _log_axis(axes, "y")


def _log_axis(axes: Axes, which: str) -> None:
    """Make an axis logarithmic, with plain numbers at 1, 2 and 5 of each decade."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ScalarFormatter())
    axis.set_minor_formatter(NullFormatter())
