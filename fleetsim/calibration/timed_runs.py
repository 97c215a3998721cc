"""Training runs that somebody timed on a device, from a CSV file.

docs/own-measurements.md has the columns; others are ignored.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fleetsim.contracts import ModelCost
from fleetsim.errors import DataError
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

_CLASSES = ("conv", "depthwise", "gemm", "rnn")
_NEEDED = ("seconds", "samples", "batch_size")
_NUMBERS = (
    *(*_NEEDED, "epochs", "classes", "layers", "parameters"),
    *(f"{name}_flop" for name in _CLASSES),
)
_SHAPE = re.compile(r"[1-9][0-9]{0,6}(x[1-9][0-9]{0,6}){0,3}")
_MOST = 1e18


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

    @property
    def num_batches(self) -> int:
        """Batches of all epochs."""
        return self.epochs * -(-self.num_samples // self.batch_size)


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
    module = build_model(
        check(_Named, document, DataError).model,
        input_shape=tuple(map(int, shape.split("x"))),
        num_classes=_whole(table, row, "classes"),
        seed=0,
    )
    return model_cost(module, tuple(map(int, shape.split("x"))))


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
