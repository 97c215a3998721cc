"""Training runs that somebody timed on a device, and the rates of the device that explain them.

docs/own-measurements.md has the columns of the CSV file; others are ignored.

The time of a run in docs/devices.md is linear in four unknowns x >= 0,

    T = x_0 * (epochs * n * 3 * sum over c of F_c / phi_c) + batches * (t_d + k_l * L + k_p * P),

x_0 = 1 / R. Relative errors are fitted by least squares without negative parts (Lawson and Hanson,
1974), with phi as in the device that the file extends. Four or more runs whose models and batches
tell all four apart fit all four. Otherwise there are two unknowns: x_0, and a factor on the
overheads of the extended device, whose ratios are kept.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from fleetsim.contracts import FloatArray, ModelCost, SampleForm, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.errors import DataError
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.profile import ComputeProfile
from fleetsim.fleet.traces.column_numbers import with_points
from fleetsim.fleet.traces.csv_table import CsvTable, read_csv_table
from fleetsim.fleet.traces.table_rows import SEEN, Layout
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import ModelSettings
from fleetsim.quoting import quoted
from fleetsim.schema import strict_yaml
from fleetsim.schema.faults import check
from fleetsim.settings import Settings
from fleetsim.units import PARAMETERS_PER_MPARAM

_CLASSES = ("conv", "depthwise", "gemm", "rnn")
_NEEDED = ("seconds", "samples", "batch_size")
_NUMBERS = (
    *(*_NEEDED, "epochs", "classes", "layers", "parameters"),
    *(f"{name}_flop" for name in _CLASSES),
)
_SHAPE = re.compile(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6}){0,3}")
_MOST = 1e18
_ALL = 4
_WORST_CONDITION = 1e4
"""Condition of the scaled columns beyond which noise of a percent would decide the unknowns."""


class _Named(Settings):
    """A model as a cell names it."""

    model: ModelSettings


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A training run and its time."""

    place: str
    seconds: float
    num_samples: int
    batch_size: int
    epochs: int
    cost: ModelCost


def read_timed_runs(
    path: Path, layout: Layout = SEEN
) -> tuple[tuple[TimedRun, ...], tuple[str, ...]]:
    """Read the runs of a file; return them, and what was seen in the file and not given."""
    table = read_csv_table(path, layout)
    columns = {
        name.strip(): tuple(
            "" if layout.is_missing(text.strip()) else text.strip() for text in texts
        )
        for name, texts in table.columns.items()
    }
    numbers = {name: columns[name] for name in _NUMBERS if name in columns}
    columns |= {name: with_points(table, name, texts) for name, texts in numbers.items()}
    table = replace(table, columns=columns)
    missing = [name for name in _NEEDED if name not in table.columns]
    if missing:
        raise DataError(
            f"{path}, row 1: no column {quoted(missing[0])}; a table of timed runs has"
            f" {', '.join(_NEEDED)} and model, input, classes, or FLOP by class, layers, parameters"
        )
    return tuple(_run(table, row) for row in range(table.num_rows)), tuple(table.notes)


def _run(table: CsvTable, row: int) -> TimedRun:
    return TimedRun(
        place=table.place(row),
        seconds=_number(table, row, "seconds"),
        num_samples=_whole(table, row, "samples"),
        batch_size=_whole(table, row, "batch_size"),
        epochs=_whole(table, row, "epochs") if _text(table, row, "epochs") else 1,
        cost=_of_model(table, row) if _text(table, row, "model") else _stated(table, row),
    )


def _of_model(table: CsvTable, row: int) -> ModelCost:
    """Return the cost of a model of fleetsim."""
    text = _text(table, row, "model")
    shape = _text(table, row, "input")
    if _SHAPE.fullmatch(shape) is None:
        raise table.fault(
            row, f"input = {quoted(shape)} is no shape of a sample, such as 3x32x32; give it"
        )
    value = text if text.startswith("{") else f"{{kind: {text}}}"
    document = strict_yaml.parse(f"model: {value}", f"{table.place(row)}, model", DataError)
    model = check(_Named, document, DataError).model
    form = SampleForm(tuple(map(int, shape.split("x"))), _whole(table, row, "classes"))
    return model_cost(build_model(model, form, seed=0), form.input_shape)


def _stated(table: CsvTable, row: int) -> ModelCost:
    """Return the cost that the row itself states."""
    flop: Mapping[str, float] = {
        name: _number(table, row, f"{name}_flop")
        for name in _CLASSES
        if _text(table, row, f"{name}_flop") not in ("", "0")
    }
    if not flop:
        raise table.fault(
            row, "has neither a model nor FLOP, such as conv_flop; give one of the two"
        )
    parameters = _whole(table, row, "parameters")
    return ModelCost(flop, parameters, 4 * parameters, num_layers=_whole(table, row, "layers"))


def _text(table: CsvTable, row: int, column: str) -> str:
    return table.columns[column][row] if column in table.columns else ""


def _number(table: CsvTable, row: int, column: str) -> float:
    text = _text(table, row, column)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number <= _MOST:
        raise table.fault(row, f"{column} = {quoted(text)} must be a number above 0; give it")
    return number


def _whole(table: CsvTable, row: int, column: str) -> int:
    number = _number(table, row, column)
    if not number.is_integer():
        raise table.fault(row, f"{column} = {number:g} must be a whole number; round it")
    return int(number)


@dataclass(frozen=True, slots=True, eq=False)
class TimeFit:
    """Rates of a device, and how well they explain the runs."""

    conv_flop_per_s: float
    dispatch_s: float
    layer_s: float
    parameter_s_per_mparam: float
    overhead_factor: float | None
    """Factor on the overheads of the extended device; None: each was fitted."""
    modelled_s: FloatArray
    """Time of each run by these rates [runs]."""
    num_unknowns: int

    @property
    def is_exact(self) -> bool:
        """True if there are no more runs than unknowns, so that residuals test nothing."""
        return self.modelled_s.size <= self.num_unknowns


def fit_times(runs: Sequence[TimedRun], base: ComputeProfile) -> TimeFit:
    """Return the rates that explain the times of runs best; `base` is the extended device."""
    if len(runs) < 2:
        where = runs[0].place if runs else "no row"
        raise DataError(f"{where}: calibration takes two timed runs or more; add a run")
    base_s = np.array(
        [base.dispatch_s, base.layer_s, base.parameter_s * PARAMETERS_PER_MPARAM], dtype=np.float64
    )
    # The time is linear in the unknowns, so a device with one of them alone gives its column.
    nothing = replace(base, conv_flop_per_s=math.inf, dispatch_s=0.0, layer_s=0.0, parameter_s=0.0)
    alone = (
        replace(nothing, conv_flop_per_s=1.0),
        replace(nothing, dispatch_s=1.0),
        replace(nothing, layer_s=1.0),
        replace(nothing, parameter_s=1.0 / PARAMETERS_PER_MPARAM),
    )
    every = np.array([[_seconds(device, run) for device in alone] for run in runs])
    two = np.array([every[:, 0], every[:, 1:] @ base_s]).T
    # Weights that do not depend on the times, whose errors must not decide what is fitted.
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
    dispatch_s, layer_s, mparam_s = (factor * base_s).tolist()
    return TimeFit(1.0 / result[0], dispatch_s, layer_s, mparam_s, factor, two @ result, 2)


def _seconds(device: ComputeProfile, run: TimedRun) -> float:
    """Return the time of a run on a device."""
    seconds = unloaded_s(
        device,
        run.cost,
        Work(WorkKind.TRAIN, epochs=run.epochs),
        num_samples=np.array([run.num_samples]),
        batching=Batching(run.batch_size),
    )
    return float(seconds[0])


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
