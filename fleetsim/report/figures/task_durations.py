"""Distribution of the durations of train tasks by kind of device.

A duration is the time from dispatch to delivery. A task that was cut off or failed would have taken
longer than it did, so its duration is censored at its end. Shares are the product-limit estimates
of Kaplan and Meier, "Nonparametric estimation from incomplete observations" (JASA 53, 1958).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fleetsim.contracts import FloatArray, Outcome, Purpose
from fleetsim.report import quantities
from fleetsim.report.figures import style
from fleetsim.report.figures.device_groups import MAX_HUES, NO_KINDS, Kinds, with_few_devices

ALL = "all devices"
QUANTILES = (0.5, 0.9, 0.95, 0.99)
COMPLETE = (Outcome.DELIVERED, Outcome.STALE, Outcome.REFUSED)
"""Outcomes of tasks whose update arrived."""
_MAX_POINTS = 400
_LOG_FROM = 30.0
"""Ratio of the longest duration to the shortest median from which the axis is logarithmic."""
_ROUNDING = 1e-9
"""Relative error of a difference of two moments, and of a product of shares."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Estimated distribution of the durations of some tasks."""

    num_tasks: int
    num_censored: int
    end_s: FloatArray
    """Durations after which a task ended, ascending [n]."""
    longer: FloatArray
    """Share of the tasks that take longer than each [n]."""
    bound_from_s: float
    """Duration beyond which shares are upper bounds, since all longer tasks were censored."""

    @classmethod
    def of(cls, tasks: pd.DataFrame) -> Durations:
        """Estimate from tasks, at least one."""
        took_s = (tasks["finished_at_s"] - tasks["dispatched_at_s"]).to_numpy(np.float64)
        is_censored = ~tasks["outcome"].isin(COMPLETE).to_numpy()
        end_s, which = np.unique(took_s, return_inverse=True)
        # Tasks that took as long or longer, censored ones too.
        num_left = np.cumsum(np.bincount(which)[::-1])[::-1]
        num_done = np.bincount(which, weights=~is_censored)
        longer = np.cumprod(1.0 - num_done / num_left, dtype=np.float64)
        is_known = longer[-1] < _ROUNDING
        bound_from_s = math.inf if is_known else float(took_s.max()) * (1.0 + _ROUNDING)
        return cls(len(tasks), is_censored.sum(), end_s, longer, bound_from_s)

    @classmethod
    def of_all(cls, parts: Collection[Durations]) -> Durations:
        """Return the mixture of several, of which slow ones may be censored more often."""
        num_tasks = sum(part.num_tasks for part in parts)
        end_s = np.unique(np.concatenate([part.end_s for part in parts]))
        longer = np.sum([part.num_tasks * part.longer_than(end_s) for part in parts], axis=0)
        num_censored = sum(part.num_censored for part in parts)
        bound_from_s = min(part.bound_from_s for part in parts)
        return cls(num_tasks, num_censored, end_s, longer / num_tasks, bound_from_s)

    def longer_than(self, duration_s: ArrayLike) -> FloatArray:
        """Return the share of the tasks that take longer than each duration."""
        latest_s = np.asarray(duration_s) * (1.0 + _ROUNDING)
        number = np.searchsorted(self.end_s, latest_s, side="right")
        return np.concatenate([[1.0], self.longer])[number]

    def quantile_s(self, share: float) -> float | None:
        """Return how long a share of the tasks takes at most; None beyond the longest task."""
        (within,) = np.nonzero(self.longer <= 1.0 - share + _ROUNDING)
        return float(self.end_s[within[0]]) if within.size else None


def by_device(tasks: pd.DataFrame, kinds: Kinds, most: int) -> dict[str, Durations]:
    """Return durations of train tasks by device, shortest median first, and of several together."""
    train = with_few_devices(tasks[tasks["purpose"] == Purpose.TRAIN], kinds, most)
    groups = {str(device): Durations.of(rows) for device, rows in train.groupby("device")}
    result = dict(sorted(groups.items(), key=lambda item: item[1].quantile_s(0.5) or math.inf))
    return result | {ALL: Durations.of_all(result.values())} if len(result) > 1 else result


@style.house_style()
def durations(
    tasks: pd.DataFrame, kinds: Kinds = NO_KINDS, *, deadline_s: float | None = None
) -> Figure:
    """Draw the share of train tasks that end within a duration, a curve per kind of device."""
    curves = by_device(tasks, kinds, MAX_HUES)
    title = "Durations of train tasks by device"
    if not curves:
        return style.empty_figure(title, "no train tasks")
    figure = style.new_figure(style.WIDTH_IN, 4.8, title=title)
    axes = figure.subplots()
    longest_s = max(float(each.end_s[-1]) for each in curves.values())
    medians_s = [each.quantile_s(0.5) or longest_s for each in curves.values()]
    is_log = longest_s > _LOG_FROM * min(medians_s)
    factor, unit = quantities.unit_for(longest_s, "s")
    style.mark_levels(axes, QUANTILES)
    every = [*style.series(len(curves) - (ALL in curves)), style.DASHED | {"linewidth": 1.6}]
    for (device, each), looks in zip(curves.items(), every, strict=False):
        points = np.linspace(0, each.end_s.size - 1, _MAX_POINTS).round().astype(np.int64)
        shown_s = each.end_s[np.unique(points)]
        begin_s = shown_s[0] if is_log else 0.0
        at, within = [begin_s, *shown_s], [0.0, *(1.0 - each.longer_than(shown_s))]
        label = f"{device}: {each.num_tasks:,} tasks"
        axes.step(np.divide(at, factor), within, where="post", label=label, **looks)
    axes.set(xlabel=f"duration ({unit})", ylabel="share of tasks that take at most this long")
    axes.set_ylim(0.0, 1.02)
    if is_log:
        style.in_plain_logs(axes, "x")
    else:
        axes.set_xlim(left=0.0)
    if deadline_s is not None and deadline_s <= 3.0 * longest_s:
        style.mark_deadline(axes, deadline_s / factor)
    style.in_percent(axes, "y")
    style.legend_below(figure, axes)
    return figure
