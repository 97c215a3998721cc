"""Phones: 40 measured training times on a Snapdragon 855, the repeated fit, and power.

The fit has four figures: k_l and k_p (overheads of a batch per layer and per parameter), the rate R
of convolutions, and that of depthwise ones, which only MobileNetV2 has. It has the least squares of
relative errors. A fifth figure, an overhead t_d of the batch itself, is 0 in the fit and left out;
the same fit with t_d instead of k_l shows the effect of counting the layers.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import least_squares

from fleetsim.contracts import FloatArray, ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices import market
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.profile import ComputeProfile, load_device
from fleetsim.learning.local.measured_networks import measured_cost
from fleetsim.report.figures import style
from fleetsim.units import FLOP_PER_GFLOP, MS_PER_S, PARAMETERS_PER_MPARAM
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, number, percent, table

_CARRIER = "pixel-4"
"""Bundled phone with a Snapdragon 855; the measured ones differ in their rate only."""
_K_NEON = 1.25
_START = (2e-3, 1e-8, 40e9, 1e9)
_PER_BATCH_START = (5e-3, 1e-8, 40e9, 1e9)
_MEASURED_AS = {"Mi 9": style.BLUE, "Meizu 16T": style.VERMILLION}
_MARKS = {"LeNet": "o", "AlexNet": "s", "SqueezeNet": "^", "GoogLeNet": "D", "MobileNetV2": "v"}


def times() -> pd.DataFrame:
    """Return the 40 measured points."""
    return measurements.table("mnn-training-time")


@cache
def costs() -> Mapping[str, ModelCost]:
    """Return the cost of each measured network, as scenarios count it."""
    return {name: measured_cost(name) for name in times()["network"].unique()}


def sd855() -> ComputeProfile:
    """Return the measured phones as fleetsim describes them: a market phone with their latency."""
    latency_ms = np.array([measurements.numbers()["sd855_resnet_ms"].value])
    rate = float(market.conv_flop_per_s(latency_ms)[0])
    return dataclasses.replace(load_device(_CARRIER).compute, conv_flop_per_s=rate)


def as_fitted(k_l: float, k_p: float, conv: float, depthwise: float) -> ComputeProfile:
    """Return a phone with the four figures of the fit, in SI units."""
    carrier = load_device(_CARRIER).compute
    phi = {**carrier.phi, "gemm": 1.0, "depthwise": depthwise / conv}
    return dataclasses.replace(
        carrier, conv_flop_per_s=conv, phi=phi, dispatch_s=0.0, layer_s=k_l, parameter_s=k_p
    )


def as_fitted_per_batch(t_d: float, k_p: float, conv: float, depthwise: float) -> ComputeProfile:
    """Return a phone with four figures, whose overhead does not depend on the layers."""
    return dataclasses.replace(as_fitted(0.0, k_p, conv, depthwise), dispatch_s=t_d)


def batch_s(compute: ComputeProfile, cost: ModelCost, batch_size: int) -> float:
    """Return seconds of training one batch."""
    work, samples = Work(WorkKind.TRAIN, epochs=1), np.array([batch_size])
    return float(
        unloaded_s(compute, cost, work, num_samples=samples, batching=Batching(batch_size))[0]
    )


def model_s(compute: ComputeProfile) -> FloatArray:
    """Return the model's seconds of the 40 points."""
    points = zip(times()["network"], times()["batch_size"], strict=True)
    return np.array([batch_s(compute, costs()[network], size) for network, size in points])


@cache
def fit(make: Callable[..., ComputeProfile] = as_fitted) -> tuple[float, ...]:
    """Return the four figures of a form with the least sum of squared relative errors."""
    start = _START if make is as_fitted else _PER_BATCH_START
    measured_s = times()["batch_s"].to_numpy()

    def errors(logs: FloatArray) -> FloatArray:
        return np.asarray(model_s(make(*np.exp(logs).tolist())) / measured_s - 1.0)

    return tuple(np.exp(least(errors, np.log(start))).tolist())


def least(errors: Callable[[FloatArray], FloatArray], start: FloatArray) -> FloatArray:
    """Return the figures with the least sum of squared errors."""
    result = least_squares(errors, start, xtol=1e-12, ftol=1e-12, gtol=1e-12)
    assert result.success, result.message
    return np.asarray(result.x)


def section() -> Section:
    """Return the section: the 40 points, by the fit and by scenarios."""
    phone, fitted = sd855(), fit()
    seconds = model_s(phone)
    checks, again = _checks(seconds), _checks(model_s(as_fitted(*fitted)))
    per_batch = _checks(model_s(as_fitted_per_batch(*fit(as_fitted_per_batch))))
    points = table(
        ("phone", "network", "batch", "measured ms", "model ms", "error", "repeated fit"),
        [
            (
                *check.what.split(", "),
                *(number(x * MS_PER_S) for x in (check.expected, check.model)),
                *(percent(x) for x in (check.error, refit.error)),
            )
            for check, refit in zip(checks, again, strict=True)
        ],
    )
    known = measurements.numbers()
    power = known["sd855_training_w"].check(
        "Snapdragon 855, four cores at 1.7 GHz, training above idle",
        "fit",
        _K_NEON * known["sd855_four_a76_1700mhz_w"].value,
    )
    text = f"""\
Five networks on a Mi 9 and three of them on a Meizu 16T (both Snapdragon 855, four fast cores),
MNN, batches of 1 to 16: {measurements.MNN}, `tools/train/benchmark`. Four figures, 40 points.

**The repeated fit** (least squares of relative errors, `scipy.optimize.least_squares`, from
{", ".join(_START_TEXT)}) beside the figures that the phones' files carry:

{_fit_table(fitted, phone)}

MobileNetV2 has the last figure to itself, so that its points say how well the form holds and no
more. MobileNetV2 trains at some 6 GFLOP/s as a whole; only 6.9 % of its arithmetic is
depthwise, so these layers carry all that it spends beyond its dense ones, BatchNorm too.

| | points | mean error | worst |
| --- | --- | --- | --- |
{_row("a fit of as many figures without layers", per_batch)}
{_row("the repeated fit", again)}
{_row("as scenarios time them, with the files' figures", checks)}

![Seconds of a batch, model against measured, 40 points](validation/mnn-training.svg)

{points}

**Power.** Phones' watts of training are those of their four fastest cores in CoreMark times
{_K_NEON} for the vector units. That factor comes from one comparison, against a lower bound; no
phone's joules of training were measured against a meter.

{Check.table([power])}
"""
    return Section(
        "Phones: training on a Snapdragon 855",
        text,
        (
            SummaryLine.of("Snapdragon 855, MNN", checks),
            SummaryLine(
                "Snapdragon 855: training power",
                "fit",
                1,
                f"{percent(power.error)} over a lower bound",
            ),
        ),
        {"mnn-training": _figure(seconds)},
    )


_START_TEXT = ("2 ms a layer", "10 ms per million", "40 and 1 GFLOP/s")


def _checks(seconds: FloatArray) -> list[Check]:
    points = measurements.rows(times().assign(model_s=seconds))
    return [
        Check(f"{phone}, {network}, {size}", "fit", measured, model, "s", measurements.MNN)
        for phone, network, size, measured, model in points
    ]


def _row(what: str, checks: list[Check]) -> str:
    return f"| {what} | {len(checks)} | {' | '.join(Check.mean_and_worst(checks))} |"


def _fit_table(fitted: tuple[float, ...], phone: ComputeProfile) -> str:
    conv, per_mparam = phone.conv_flop_per_s, PARAMETERS_PER_MPARAM * MS_PER_S
    shipped = (phone.layer_s, phone.parameter_s, conv, phone.phi["depthwise"] * conv)
    units = (
        ("k_l", MS_PER_S, "ms per layer"),
        ("k_p", per_mparam, "ms per million parameters"),
        ("R, convolutions", 1.0 / FLOP_PER_GFLOP, "GFLOP/s"),
        ("depthwise layers", 1.0 / FLOP_PER_GFLOP, "GFLOP/s, phi `depthwise` x R"),
    )
    return table(
        ("figure", "fitted", "shipped", "difference", "unit"),
        [
            (what, number(a * factor), number(b * factor), percent(b / a - 1.0), unit)
            for (what, factor, unit), a, b in zip(units, fitted, shipped, strict=True)
        ],
    )


@style.house_style()
def _figure(seconds: FloatArray) -> Figure:
    points = times().assign(model_s=seconds)
    figure = style.new_figure(6.4, 5.6)
    axes = figure.subplots()
    axes.set_aspect("equal")
    ends = np.array([6.0, 8000.0])
    axes.plot(ends, ends, color=style.GREY, linewidth=1.2, label="equal")
    axes.fill_between(
        ends, ends / 2.0, ends * 2.0, color=style.PALE, alpha=0.6, label="within a factor of two"
    )
    for phone, color in _MEASURED_AS.items():
        for network, mark in _MARKS.items():
            of_both = points.query("phone == @phone and network == @network")
            if len(of_both):
                measured_ms, model_ms = (of_both[key] * MS_PER_S for key in ("batch_s", "model_s"))
                axes.plot(
                    measured_ms, model_ms, mark, color=color, markersize=5, markerfacecolor="none",
                    label=f"{network}, {phone}",
                )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set(xlabel="measured, ms a batch", ylabel="as scenarios time it, ms a batch")
    axes.legend(fontsize=8, loc="upper left")
    return figure
