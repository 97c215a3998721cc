"""Tables of the durations of train tasks by device, and of what deadlines would cut off."""

import pandas as pd

from fleetsim.contracts import Purpose
from fleetsim.report.figures.device_groups import MAX_ROWS, Kinds
from fleetsim.report.figures.task_durations import ALL, COMPLETE, QUANTILES, Durations, by_device
from fleetsim.report.markup import Table
from fleetsim.report.quantities import percent, target, text


def tables(tasks: pd.DataFrame, kinds: Kinds, deadline_s: float | None) -> list[tuple[str, Table]]:
    """Return caption and table: quantiles; shares that deadlines at those of all tasks cut off."""
    devices = by_device(tasks, kinds, MAX_ROWS)
    train = tasks[tasks["purpose"] == Purpose.TRAIN]
    ended = train.loc[~train["outcome"].isin(COMPLETE), "outcome"].value_counts()
    caption = "Time from dispatch to delivery within which a share of the tasks ends."
    if len(ended):
        causes = ", ".join(f"{number:,} {outcome}" for outcome, number in ended.items())
        caption += (
            f" {ended.sum():,} of {len(train):,} tasks ended before ({causes}). They are censored"
            " at their end (Kaplan-Meier), as if it had nothing to do with the time still needed."
        )
    deadlines: dict[float, str] = {}
    if ALL in devices:  # the quantiles of a single device are in its row
        for share in QUANTILES:
            at_s = devices[ALL].quantile_s(share)
            deadlines |= {at_s: f"{text(at_s, 's')} ({target(share)})"} if at_s else {}
    if deadline_s is not None:
        deadlines[deadline_s] = f"{text(deadline_s, 's')} (server.deadline_s)"
    quantiles, shares = [], []
    for device, each in devices.items():
        within = (_within(each, share) for share in QUANTILES)
        quantiles.append((device, f"{each.num_tasks:,}", f"{each.num_censored:,}", *within))
        longer = (
            _bound(each, at_s) + percent(float(each.longer_than(at_s)))
            for at_s in sorted(deadlines)
        )
        shares.append((device, *longer))
    columns = [f"{target(share)} within" for share in QUANTILES]
    headings = [deadlines[at_s] for at_s in sorted(deadlines)]
    return [
        (caption, Table(("device", "train tasks", "ended before", *columns), quantiles)),
        (
            "Share of the tasks that a deadline cuts off: at quantiles of all, and the run's.",
            Table(("device", *headings), shares if deadlines else []),
        ),
    ]


def _within(each: Durations, share: float) -> str:
    at_s = each.quantile_s(share)
    if at_s is None:
        return f"over {text(float(each.end_s[-1]), 's')}"
    return _bound(each, at_s) + text(at_s, "s")


def _bound(each: Durations, at_s: float) -> str:
    return "up to " if at_s > each.bound_from_s else ""
