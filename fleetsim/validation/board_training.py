"""Boards that train in PyTorch on their CPU: measured times, the repeated fit, held-out networks.

The fit has four figures: the rate R of convolutions on each board, and phi of depthwise
convolutions and of matrix products, one for both boards because one engine ran on them. Overheads
are those of the files. Least squares of ln(model / measured), so that twice and half the time count
alike. Each network is also predicted from a fit without it (leave one network out).
"""

import dataclasses
from functools import cache

import numpy as np
import pandas as pd

from fleetsim.contracts import FloatArray, ModelCost
from fleetsim.fleet.devices.profile import ComputeProfile, load_device
from fleetsim.units import FLOP_PER_GFLOP, PARAMETERS_PER_MPARAM
from fleetsim.validation import measurements
from fleetsim.validation.phones import batch_s, fitted
from fleetsim.validation.tables import Check, Kind, Section, SummaryLine, filled

BOARDS = ("raspberry-pi-4", "raspberry-pi-5")
_START = (10e9, 30e9, 0.02, 2.0)
_CLASSES = ("conv", "depthwise", "gemm")


def times() -> pd.DataFrame:
    """Return the measured points."""
    return measurements.table("pytorch-boards")


def costs(points: pd.DataFrame) -> list[ModelCost]:
    """Return the cost of the network of each point, from the counts in the table."""
    return [
        ModelCost(
            {kind: getattr(row, f"{kind}_gflop") * FLOP_PER_GFLOP for kind in _CLASSES},
            round(row.mparam * PARAMETERS_PER_MPARAM),
            payload_byte=0,
            num_layers=row.layers,
        )
        for row in measurements.rows(points)
    ]


def model_s(points: pd.DataFrame, computes: dict[str, ComputeProfile]) -> FloatArray:
    """Return the model's seconds of points [n] with a profile for each board."""
    rows = zip(points["board"], costs(points), points["batch_size"], strict=True)
    return np.array([batch_s(computes[board], cost, int(size)) for board, cost, size in rows])


@cache
def shipped() -> dict[str, ComputeProfile]:
    """Return the boards' profiles."""
    return {board: load_device(board).compute for board in BOARDS}


def as_fitted(*numbers: float) -> dict[str, ComputeProfile]:
    """Return the boards' profiles with a rate for each, then phi of depthwise and of gemm."""
    *rates, depthwise, gemm = numbers
    return {
        board: dataclasses.replace(
            compute, conv_flop_per_s=rate, phi={**compute.phi, "depthwise": depthwise, "gemm": gemm}
        )
        for (board, compute), rate in zip(shipped().items(), rates, strict=True)
    }


@cache
def fit(without: str = "") -> tuple[float, ...]:
    """Return the four figures with the least squares, without the points of a network."""
    points = times().query("network != @without")
    measured_s = points["batch_s"].to_numpy()

    return fitted(
        lambda *numbers: np.log(model_s(points, as_fitted(*numbers)) / measured_s), _START
    )


def held_out_s() -> FloatArray:
    """Return the seconds of all points, each by a fit without its network."""
    points, seconds = times(), np.empty(len(times()))
    for network in points["network"].unique():
        rows = (points["network"] == network).to_numpy()
        seconds[rows] = model_s(points[rows], as_fitted(*fit(network)))
    return seconds


def section() -> Section:
    """Return the section: ten networks on a Raspberry Pi 4, eight of them on a Pi 5."""
    points, carried = times(), shipped()
    by_files = _checks(points, model_s(points, carried), "fit")
    held_out = _checks(points, held_out_s(), "prediction")
    pi4, pi5 = (carried[board] for board in BOARDS)
    return Section(
        "Boards: training in PyTorch",
        filled(
            "board_training",
            source=measurements.FEDERATED_VISION,
            checks=by_files,
            held_out=held_out,
            fitted=fit(),
            pi4=pi4,
            pi5=pi5,
        ),
        (
            SummaryLine.of("Raspberry Pi 4 and 5, PyTorch", by_files),
            SummaryLine.of("The same, each network held out", held_out),
        ),
    )


def _checks(points: pd.DataFrame, seconds: FloatArray, kind: Kind) -> list[Check]:
    source = measurements.FEDERATED_VISION
    return [
        Check(f"{row.board}, {row.network}", kind, row.batch_s, float(model), "s", source)
        for row, model in zip(measurements.rows(points), seconds, strict=True)
    ]
