"""The page of a search: the best trial and its command, a figure of all trials, and their table."""

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fleetsim import bundled
from fleetsim.quoting import counted, cut
from fleetsim.record import atomic_files
from fleetsim.report import markup
from fleetsim.report.figures import style
from fleetsim.report.markup import Picture, Table
from fleetsim.schema import strict_yaml
from fleetsim.studies.page import units
from fleetsim.studies.search.search_file import Objective, Search
from fleetsim.studies.search.trials import Trial, best_of

PAGE = "search.html"
_COLUMNS = 3
_LABELLED = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
"""Multiples of a decade at a logarithmic axis."""
_MARKS = {
    "complete": ("o", style.BLUE),
    "over the bound": ("s", style.VERMILLION),
    "target missed": ("^", style.PURPLE),
    "pruned": ("x", style.MIDDLE_GREY),
}
"""Marker and colour by the outcome of a trial."""


def write_page(search: Search, trials: Sequence[Trial], folder: Path) -> Path:
    """Write `search.html` into the folder of a search, and return it."""
    settings, best = search.settings, best_of(trials, search.settings.objective)
    run = [trial for trial in trials if trial.seeds]
    atomic_files.make_folder(folder, hint=markup.HINT)
    markup.write_static(
        folder / PAGE,
        "search.html.j2",
        folder="studies/search",
        study=search.scenario.settings,
        trials=f"{len(trials)} of {settings.trials} trials",
        finding=finding(search, trials),
        command=command(search, best) if best else "",
        setup=strict_yaml.dump(search.document.data),
        picture=Picture(
            style.encode(_figure(search, run, best), ["svg"])["svg"],
            f"{settings.objective.metric} of all trials, in their order and against each key",
            "Geometric means over the seeds that were run; for a trial that missed the target, a"
            " lower bound. Green: least so far within all limits. A trial differs from others in"
            " all keys; trial 0 is the scenario as it is, and has no point there.",
        )
        if run
        else None,
        table=_table(search, trials, best),
    )
    return folder / PAGE


def finding(search: Search, trials: Sequence[Trial]) -> str:
    """Return in a sentence which trial is the best, and how it compares with the scenario."""
    objective = search.settings.objective
    best, first = best_of(trials, objective), trials[0]
    if best is None:
        return "No trial is complete."
    outcome = best.outcome(objective)
    if outcome != "complete":
        return f"No trial keeps all limits; the nearest is trial {best.number}: {outcome}."
    costs = " and ".join(_costs(best, objective).values())
    if best is first:
        return f"No trial is better than the scenario as it is (trial 0): {costs}."
    words = f"Trial {best.number} is the best: {costs}"
    if first.outcome(objective) != "complete":
        return f"{words}; the scenario as it is (trial 0): {first.outcome(objective)}."
    ratio = best.costs()[0] / first.costs()[0]
    return f"{words}, {ratio:.2f} times the {objective.metric} of the scenario as it is (trial 0)."


def command(search: Search, trial: Trial) -> str:
    """Return the command that runs a trial with its first seed."""
    study = search.scenario.settings
    name, beside = study.scenario, search.document.folder
    if name not in bundled.names("scenarios"):
        name = str(bundled.find("scenarios", name, beside=beside))
    words = ["fleetsim", "run", name, "--seed", str(study.seeds[0])]
    words += [] if study.train else ["--no-train"]
    for key, value in (study.overrides | search.changes(trial.parameters)).items():
        words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    for plugin in search.scenario.plugins:
        words += ["--plugin", plugin.name]
    return shlex.join(words)


def row(search: Search, trial: Trial) -> dict[str, str]:
    """Return the texts of a trial by column."""
    objective, changes = search.settings.objective, search.changes(trial.parameters)
    values = {key: _shown(value) for key, value in changes.items()}
    return {
        "trial": str(trial.number),
        "outcome": trial.outcome(objective),
        **{key: values.get(key, "as it is") for key in search.settings.search},
        **_costs(trial, objective),
        "reached": f"{trial.num_reached} of {counted(len(trial.seeds), 'seed')}",
        "reason": trial.reason,
    }


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else strict_yaml.shown(value)


def _costs(trial: Trial, objective: Objective) -> dict[str, str]:
    if not trial.seeds:
        return dict.fromkeys(objective.metrics, "-")
    bound = "" if trial.num_reached == len(trial.seeds) else ">= "
    costs = zip(objective.metrics, trial.costs(), strict=True)
    return {metric: bound + units.text(cost, metric) for metric, cost in costs}


def _table(search: Search, trials: Sequence[Trial], best: Trial | None) -> Table:
    rows = pd.DataFrame([row(search, trial) for trial in trials])
    if not rows["reason"].any():
        del rows["reason"]
    marked = [(trials.index(best), place) for place in range(rows.shape[1])] if best else []
    return Table([*rows.columns], rows.to_numpy().tolist(), is_text=True, best=frozenset(marked))


@style.house_style()
def _figure(search: Search, trials: Sequence[Trial], best: Trial | None) -> Figure:
    """Draw the costs over the trials, against each key, and against the bounded metric."""
    objective, keys = search.settings.objective, search.settings.search
    outcomes = np.array([trial.outcome(objective) for trial in trials])
    costs = np.array([trial.costs() for trial in trials])
    scale, unit = units.of_axis(float(costs[:, 0].max()), objective.metric)
    y = costs[:, 0] / scale
    made = [{"trial": trial.number, **trial.parameters} for trial in trials]
    by_label = pd.DataFrame(made, columns=["trial", *keys]).astype(float)
    if objective.bound is not None:
        by_label[f"{objective.bound.metric} (dotted: bound)"] = costs[:, 1]
    num = by_label.shape[1]
    num_rows = math.ceil(num / _COLUMNS)
    figure = style.new_figure(style.WIDTH_IN, 0.8 + 3.2 * num_rows)
    cells = figure.subplots(num_rows, _COLUMNS, sharey=True, squeeze=False).ravel()
    for axes, (label, x) in zip(cells, by_label.items(), strict=False):
        for outcome, (marker, color) in _MARKS.items():
            if (has := outcomes == outcome).any():
                looks = {"marker": marker, "color": color, "label": outcome}
                axes.scatter(x[has], y[has], s=26, zorder=3, **looks)
        if best is not None:
            here = trials.index(best)
            ring = {"markersize": 12, "fillstyle": "none", "color": style.ORANGE}
            axes.plot(x[here], y[here], "o", label="best", **ring)
        axes.set_xlabel(label)
        if label in keys and keys[label].choices is not None:
            shown = [cut(_shown(end), 18) for end in keys[label].ends]
            axes.set_xticks(range(len(shown)), shown, rotation=30, ha="right")
        elif label in keys and keys[label].log:
            style.in_plain_logs(axes, "x", _LABELLED)
    least = np.minimum.accumulate(np.where(outcomes == "complete", y, math.inf))
    cells[0].step(by_label["trial"], least, where="post", color=style.GREEN, zorder=1)
    style.in_whole_numbers(cells[0].xaxis)
    if objective.bound is not None:
        cells[num - 1].axvline(objective.bound.most, color=style.VERMILLION, linestyle=":")
    for axes in cells[::_COLUMNS]:
        axes.set_ylabel(f"{objective.metric} ({unit})" if unit else objective.metric)
        style.in_plain_logs(axes, "y", _LABELLED)
    for axes in cells[num:]:
        axes.set_axis_off()
    style.legend_below(figure, cells[0])
    return figure
