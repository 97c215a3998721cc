"""Overhead of a layer on Jetson GPUs, fitted to latencies of PyTorch.

A forward pass of one image takes

    k * L + q * P + F / R

for a network of L layers that multiply matrices, P parameters and F FLOP: k is the overhead of a
layer, q the reading of the parameters, R a rate. Least squares of relative errors, with no figure
below 0. A trained batch launches each layer three times (forward, and the gradients of
inputs and of weights), so `layer_s` of the boards is 3 k. The networks ran in half precision, so R
is no rate of training; k is work of the CPU and does not depend on it.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import load_device
from fleetsim.units import FLOP_PER_GFLOP, MS_PER_S, PARAMETERS_PER_MPARAM
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, number, percent, table

_TRAIN_PER_FORWARD = 3.0
_BOARDS = {"jetson-nano": "jetson-nano-gpu", "jetson-agx-xavier": "jetson-xavier-nx"}
"""Measured boards, with the device that has their `layer_s`."""


class LayerFit(NamedTuple):
    """Networks on one board, in the order of the table, and the figures fitted to them."""

    network: list[str]
    terms: FloatArray
    """Layers, FLOP of a forward pass and parameters of each [n, 3]."""
    measured_s: FloatArray
    """Measured latency of each [n]."""
    layer_s: float
    """k: seconds of a layer in a forward pass."""
    model_s: FloatArray
    """Latencies of the fit [n]."""


@cache
def fit(board: str) -> LayerFit:
    """Fit by least squares of relative errors over a board's networks."""
    times = measurements.table("jetson-inference").query("board == @board")
    measured_s = (times["latency_ms"] / MS_PER_S).to_numpy()
    forward_flop = 2.0 * times["gmac"] * FLOP_PER_GFLOP
    terms = np.column_stack(
        [times["layers"], forward_flop, times["mparam"] * PARAMETERS_PER_MPARAM]
    )
    # Scaled to columns of about 1, so that the solver's tolerance means the same for each.
    scale = terms.max(axis=0)
    scaled, _ = nnls(terms / scale / measured_s[:, np.newaxis], np.ones(measured_s.size))
    coefficients = scaled / scale
    return LayerFit(
        times["network"].tolist(), terms, measured_s, float(coefficients[0]), terms @ coefficients
    )


def section() -> Section:
    """Return the section: the fits, and the figures in the boards' files."""
    rows, checks = [], []
    for board, device in _BOARDS.items():
        fitted = fit(board)
        errors = [
            Check(f"{board}, {network}", "fit", measured, model, "s", measurements.TORCH2TRT)
            for network, measured, model in zip(
                fitted.network, fitted.measured_s, fitted.model_s, strict=True
            )
        ]
        worst = max(errors, key=lambda check: abs(check.error))
        checks += errors
        fitted_s = _TRAIN_PER_FORWARD * fitted.layer_s
        shipped_s = load_device(device).compute.layer_s
        rows.append(
            (
                *(board, str(len(errors))),
                *(f"{number(s * MS_PER_S)} ms" for s in (fitted.layer_s, fitted_s)),
                f"`{device}`: {number(shipped_s * MS_PER_S)} ms",
                percent(float(np.mean(np.abs([check.error for check in errors]))), signed=False),
                f"{percent(worst.error)} ({worst.what.split(', ')[1]})",
            )
        )
    head = ("board", "networks", "k, forward", "3 k", "shipped", "mean error", "worst")
    text = f"""\
Cost of a layer on a Jetson's GPU, besides its arithmetic: single images through torchvision's
networks in PyTorch ({measurements.TORCH2TRT}). On the Xavier the time of ResNets is proportional to
their layers, and four MNASNets of 0.10 to 0.53 GMAC take the same 15 ms: they wait for the CPU that
launches kernels.

{table(head, rows)}

The Jetson TX2 has the Nano's figure scaled by the clocks of their CPU cores, the Orin Nano the
Xavier's. No training of a small network on these boards was found to compare with.
"""
    return Section(
        "Boards: overhead of a layer",
        text,
        (SummaryLine.of("Jetson GPUs, latency by layers", checks),),
    )
