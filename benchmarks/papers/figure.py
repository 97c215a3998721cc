"""Figure of the cost of an accuracy with each selector, as a multiple of random's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.papers.experiment import RANDOM
from benchmarks.papers.prices import Price, ratio
from benchmarks.papers.tables import Outcomes, Result, best_target, prices_of
from fleetsim.record import atomic_files
from fleetsim.report.figures import style

_UNITS = ("rounds", "seconds", "joules")
_MARKS = ("o", "s", "^")
_ROW_IN = 0.27
_WIDTH_IN = 8.0
_NEVER_ROOM = 1.25


def ratios(found: Outcomes, target: float) -> dict[str, tuple[float, float, float] | None]:
    """Return rounds, seconds and joules to an accuracy over random's, by arm, mean over seeds.

    Means are geometric. None: the arm missed the accuracy with some seed. Empty if random did.
    """
    prices = prices_of(found, target)
    base = _whole(prices.get(RANDOM, []))
    if base is None:
        return {}
    over: dict[str, tuple[float, float, float] | None] = {}
    for arm, of_arm in prices.items():
        if arm == RANDOM:
            continue
        own = _whole(of_arm)
        over[arm] = None if own is None else _over(own, base)
    return over


def draw(results: Iterable[Result]) -> Figure:
    """Draw a row per experiment and selector; left of the line at 1 it is cheaper than random."""
    rows: list[tuple[str, tuple[float, float, float] | None]] = []
    for result in results:
        found = result.outcomes
        of_random = {RANDOM: found[RANDOM]} if RANDOM in found else {}
        target = best_target(of_random, result.targets)
        if target is None:
            continue
        target = best_target(found, [one for one in result.targets if one <= target])
        if target is None:
            continue
        for arm, values in ratios(found, target).items():
            rows.append((f"{result.experiment.label}, {100 * target:g} %: {arm}", values))
    rows.reverse()  # the first experiment is at the top
    figure = style.new_figure(
        _WIDTH_IN, 1.3 + _ROW_IN * len(rows), title="Cost of an accuracy, as a multiple of random's"
    )
    axes = figure.subplots()
    colors = style.fill_colors(len(_UNITS))
    for number, (unit, mark, color) in enumerate(zip(_UNITS, _MARKS, colors, strict=True)):
        points = [(row[1][number], y) for y, row in enumerate(rows) if row[1] is not None]
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            linestyle="",
            marker=mark,
            color=color,
            label=unit,
        )
    for y, (_, values) in enumerate(rows):
        if values is None:
            axes.text(_NEVER_ROOM, y, "not reached with every seed", va="center", fontsize="small")
        else:
            axes.plot([min(values), max(values)], [y, y], color="0.7", linewidth=1, zorder=0)
    axes.axvline(1.0, color="0.4", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(LogLocator(base=2, subs=(1.25, 1.5, 1.75)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    style.rows_from_top(axes, len(rows))
    axes.set_xlabel("cheaper than random  <  1  <  dearer than random")
    style.legend_below(figure, axes)
    return figure


def write(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, atomically."""
    encoded = style.encode(figure, ["svg"])["svg"]
    atomic_files.write(path, encoded, hint="make the folder writable, then run the command again")


def _whole(prices: list[Price | None]) -> list[Price] | None:
    known = [one for one in prices if one is not None]
    return known if known and len(known) == len(prices) else None


def _over(own: list[Price], base: list[Price]) -> tuple[float, float, float]:
    return (
        ratio([p.rounds for p in own], [p.rounds for p in base]),
        ratio([p.seconds for p in own], [p.seconds for p in base]),
        ratio([p.joules for p in own], [p.joules for p in base]),
    )
