"""Tables of the user's data: pandas DataFrames, Hugging Face data sets, mappings of columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.quoting import quoted
from fleetsim.user.data.fields import DatasetColumns, Fields, Key, Row, named
from fleetsim.user.data.values import as_array, is_of


def is_frame(part: Any) -> bool:
    """Return whether it is a pandas DataFrame."""
    return is_of(part, "pandas", "DataFrame")


def is_hugging_face(part: Any) -> bool:
    """Return whether it is a Hugging Face `Dataset`."""
    return is_of(part, "datasets", "Dataset")


class TableSource:
    """Rows of a table."""

    def __init__(self, table: Any, fields: Fields, place: str) -> None:
        """Find out which columns are used."""
        self.place = place
        self._table = table
        keys = table.column_names if is_hugging_face(table) else list(table)
        self._names = named(keys, fields, place)
        if not isinstance(table, Mapping):
            self._num = len(table)
            return
        lengths = {key: len(table[key]) for key in keys}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{key} {num}" for key, num in lengths.items())
            raise DataError(f"{place}: columns have unequal lengths ({listed}); make them equal")
        self._num = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self._num

    def row(self, index: int) -> Row:
        """Return one row."""
        names = self._names
        if is_hugging_face(self._table):
            item = self._table[index]
        elif is_frame(self._table):
            item = {key: self._table[key].iloc[index] for key in self._used()}
        else:
            item = {key: self._table[key][index] for key in self._used()}
        if names.is_single:
            sample = item[names.inputs[0]]
        else:
            sample = np.array([item[key] for key in names.inputs], dtype=np.float32)
        client = None if names.client is None else item[names.client]
        return Row(sample, item[names.label], client)

    def columns(self) -> DatasetColumns | None:
        """Return all rows; None for a Hugging Face data set with a transform of its own."""
        names = self._names
        if is_hugging_face(self._table) and self._table.format["type"] == "custom":
            return None
        samples: Any
        if names.is_single:
            samples = self._column(names.inputs[0])
            if (
                isinstance(samples, np.ndarray)
                and samples.ndim == 1
                and samples.dtype.kind in "biuf"
            ):
                samples = self._features(names.inputs)
        else:
            samples = self._features(names.inputs)
        client = None if names.client is None else self._column(names.client)
        return DatasetColumns(samples, self._column(names.label), client)

    def _used(self) -> list[Key]:
        names = self._names
        return [*names.inputs, names.label, *([] if names.client is None else [names.client])]

    def _column(self, key: Key) -> Any:
        """Return a column: an array, or a sequence of samples."""
        if is_hugging_face(self._table):
            from fleetsim.user.data.hugging_face import column  # noqa: PLC0415

            return column(self._table, str(key))
        values = self._table[key]
        if is_frame(self._table):
            return values.to_numpy()
        return as_array(values, f"{self.place}: {key}")

    def _features(self, keys: Sequence[Key]) -> NDArray[np.float32]:
        """Return columns of numbers as vectors [n, columns]."""
        columns = []
        for key in keys:
            array = np.asarray(self._column(key))
            if array.ndim != 1 or array.dtype.kind not in "biuf":
                raise DataError(
                    f"{self.place}: column {quoted(key)} holds {_content(array)}; several columns"
                    " of inputs are numbers, one each; name those of the inputs, such as"
                    f" inputs=[...], or the one that holds them"
                )
            columns.append(array.astype(np.float32))
        return np.stack(columns, axis=1)


def _content(array: NDArray[Any]) -> str:
    if array.dtype.kind != "O" or not array.size:
        return f"{array.dtype} of shape {array.shape}"
    return f"values of type {type(array.flat[0]).__name__}"
