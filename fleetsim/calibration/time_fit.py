"""Rate of arithmetic and overheads of a device that explain the times of training runs.

The time of a run in docs/devices.md is linear in four unknowns x >= 0,

    T = x_0 * (epochs * n * 3 * sum over c of F_c / phi_c) + batches * (t_d + k_l * L + k_p * P),

x_0 = 1 / R. Relative errors are fitted by least squares without negative parts (Lawson and Hanson,
1974), with phi as in the device that the file extends. Four or more runs whose models and batches
tell all four apart fit all four. Otherwise there are two unknowns: x_0, and a factor on the
overheads of the extended device, whose ratios are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from fleetsim.calibration.timed_runs import TimedRun
from fleetsim.contracts import FloatArray
from fleetsim.errors import DataError
from fleetsim.fleet.devices.profile import ComputeProfile
from fleetsim.units import PARAMETERS_PER_MPARAM

_TRAIN_PER_FORWARD = 3.0
_ALL = 4
_WORST_CONDITION = 1e4
"""Condition of the scaled columns beyond which noise of a percent would decide the unknowns."""


@dataclass(frozen=True, slots=True, eq=False)
class TimeFit:
    """Figures of a device, and how well they explain the runs."""

    conv_flop_per_s: float
    dispatch_s: float
    layer_s: float
    parameter_s_per_mparam: float
    overhead_factor: float | None
    """Factor on the overheads of the extended device; None: each was fitted."""
    modelled_s: FloatArray
    """Time of each run by the figures [runs]."""
    num_unknowns: int

    @property
    def is_exact(self) -> bool:
        """True if there are no more runs than unknowns, so that residuals test nothing."""
        return self.modelled_s.size <= self.num_unknowns


def fit_times(runs: Sequence[TimedRun], base: ComputeProfile) -> TimeFit:
    """Return the figures that explain the times of runs best; `base` is the extended device."""
    if len(runs) < 2:
        where = runs[0].place if runs else "no row"
        raise DataError(f"{where}: calibration takes two timed runs or more; add a run")
    batches = np.array([float(run.num_batches) for run in runs])
    layers = np.array([float(run.cost.num_layers) for run in runs])
    mparam = np.array([run.cost.num_parameters for run in runs]) / PARAMETERS_PER_MPARAM
    flop = np.array([_weighted_flop(run, base) for run in runs])
    every = np.array([flop, batches, batches * layers, batches * mparam]).T
    base_s = np.array(
        [base.dispatch_s, base.layer_s, base.parameter_s * PARAMETERS_PER_MPARAM], dtype=np.float64
    )
    two = np.array([flop, every[:, 1:] @ base_s]).T
    # Weights that do not depend on the times, whose errors must not decide what can be told.
    expected_s = two @ np.array([1.0 / base.conv_flop_per_s, 1.0])
    if len(runs) >= _ALL and _tells_apart(every / expected_s[:, np.newaxis]):
        result = _least_squares(every, runs)
        return TimeFit(1.0 / result[0], result[1], result[2], result[3], None, every @ result, _ALL)
    if not _tells_apart(two / expected_s[:, np.newaxis]):
        raise DataError(
            f"{runs[0].place}: the runs are too alike to tell arithmetic from overhead; add one"
            " with another batch size, such as a quarter of it, or another model"
        )
    result = _least_squares(two, runs)
    factor = float(result[1])
    own_s = factor * base_s
    return TimeFit(1.0 / result[0], own_s[0], own_s[1], own_s[2], factor, two @ result, 2)


def _weighted_flop(run: TimedRun, base: ComputeProfile) -> float:
    """Return the FLOP of a run as if all were convolutions at the rate R."""
    total = 0.0
    for name, flop in run.cost.forward_flop.items():
        if name not in base.phi:
            raise DataError(
                f"{run.place}: the extended device has no rate of {name} operations; extend another"
            )
        total += flop / base.phi[name]
    return run.epochs * run.num_samples * _TRAIN_PER_FORWARD * total


def _tells_apart(columns: FloatArray) -> bool:
    scale = np.linalg.norm(columns, axis=0)
    if (scale == 0.0).any():
        return False
    return float(np.linalg.cond(columns / scale)) < _WORST_CONDITION


def _least_squares(columns: FloatArray, runs: Sequence[TimedRun]) -> FloatArray:
    """Return the unknowns >= 0 with the least sum of squared relative errors."""
    relative = columns / np.array([[run.seconds] for run in runs])
    scale = np.linalg.norm(relative, axis=0)
    result: FloatArray = nnls(relative / scale, np.ones(len(runs)))[0]
    if result[0] <= 0.0:
        raise DataError(
            f"{runs[0].place}: the times leave nothing for arithmetic: larger work took no longer."
            " Time longer runs, on a device that is cool and does nothing else"
        )
    return np.asarray(result / scale)
