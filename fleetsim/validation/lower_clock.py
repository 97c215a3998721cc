"""Training at a lower clock on a Snapdragon 855, measured and by the law of `fleet.devices.pace`.

The law has one figure, the share beta of the time that a lower clock stretches. It has the least
squares of ln(model / measured). The same with a share for overheads and another for arithmetic, and
speed in proportion to the clock, stand beside it. Each network is also predicted without it (leave
one network out).
"""

from functools import cache

import numpy as np
import pandas as pd

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.pace import speed_at
from fleetsim.fleet.devices.profile import load_device
from fleetsim.validation import measurements, phones
from fleetsim.validation.tables import Check, Section, SummaryLine, filled, number

_CARRIER = "pixel-4"
_HELD_GHZ = 1.7088
_FULL_GHZ = (3 * 2.4192 + 2.8416) / 4
"""Of four cores on average."""
THETA = _HELD_GHZ / _FULL_GHZ
"""Share of the full clock."""


@cache
def points() -> pd.DataFrame:
    """Return the points, with the share of overheads in the model's time at full clock."""
    data, compute, costs = measurements.table("mnn-low-clock"), phones.sd855(), phones.costs()
    overhead = []
    for row in measurements.rows(data):
        cost = costs[row.network]
        one, whole = (phones.batch_s(compute, cost, size) for size in (1, row.batch_size))
        sample_s = phones.batch_s(compute, cost, 2) - one
        overhead.append((one - sample_s) / whole)
    return data.assign(overhead=overhead)


def slowed(shares: FloatArray, overhead: FloatArray) -> FloatArray:
    """Return seconds at the lower clock over those at full clock [n].

    `shares` are one of all time, or those of overheads and of arithmetic; `overhead` is the share
    of overheads in each time [n].
    """
    of_overhead, of_arithmetic = shares[0], shares[-1]
    share = of_overhead * overhead + of_arithmetic * (1.0 - overhead)
    return np.asarray(1.0 / speed_at(THETA, share))


@cache
def fit(num_shares: int = 1, without: str = "") -> tuple[float, ...]:
    """Return the share, or the two, with the least squares, without a network."""
    kept = points().query("network != @without")
    overhead, measured = kept["overhead"].to_numpy(), np.log(_ratio(kept))

    return phones.fitted(
        lambda *shares: np.log(slowed(np.array(shares), overhead)) - measured, num_shares * (0.3,)
    )


def held_out(num_shares: int = 1) -> FloatArray:
    """Return the slow-down of all points, each by a fit without its network."""
    return np.concatenate(
        [
            slowed(np.array(fit(num_shares, row.network)), np.array([row.overhead]))
            for row in measurements.rows(points())
        ]
    )


def section() -> Section:
    """Return the section: 25 points, the law's share, and the joules."""
    device, measured = load_device(_CARRIER), _ratio(points())
    overhead, full_s, low_s = (points()[key].to_numpy() for key in ("overhead", "full_s", "low_s"))
    share = device.compute.clock_share
    law = slowed(np.array([share]), overhead)
    one, two = fit(), fit(2)
    forms = (
        (f"one share, shipped: {number(share)}", law, None),
        (f"one share, fitted: {number(one[0])}", slowed(np.array(one), overhead), held_out()),
        (
            f"overheads {number(two[0])}, arithmetic {number(two[1])}",
            slowed(np.array(two), overhead),
            held_out(2),
        ),
        ("in proportion to the clock", slowed(np.ones(1), overhead), None),
    )
    full_w = device.power.train_above_idle_w
    train_w = full_w * THETA**2
    bound = measurements.numbers()["sd855_training_w"]
    seconds = _checks(law * full_s, low_s, "s", measurements.MNN)
    joules = _checks(train_w * law * full_s, bound.value * low_s, "J", bound.source)
    text = filled(
        "lower_clock",
        source=measurements.MNN,
        full_ghz=_FULL_GHZ,
        theta=THETA,
        forms=[
            (
                what,
                _mean_error(model / measured),
                None if other is None else _mean_error(other / measured),
            )
            for what, model, other in forms
        ],
        without_lenet=fit(2, "LeNet"),
        seconds=seconds,
        joules=joules,
        full_s=full_s,
        train_w=train_w,
        full_w=full_w,
        least_w=bound.value,
    )
    return Section(
        "Phones: a lower clock",
        text,
        (
            SummaryLine.of("Snapdragon 855 at 0.68 of its clock, time", seconds),
            SummaryLine.of("The same, joules above idle", joules),
        ),
    )


def _checks(model: FloatArray, measured: FloatArray, unit: str, source: str) -> list[Check]:
    return [
        Check(f"{row.network}, {row.batch_size}", "fit", float(right), float(value), unit, source)
        for row, right, value in zip(measurements.rows(points()), measured, model, strict=True)
    ]


def _ratio(data: pd.DataFrame) -> FloatArray:
    """Return measured seconds at the lower clock over those at full clock [n]."""
    return (data["low_s"] / data["full_s"]).to_numpy()


def _mean_error(ratio: FloatArray) -> float:
    return float(np.abs(ratio - 1.0).mean())
