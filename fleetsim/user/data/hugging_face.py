"""Hugging Face data sets: columns as arrays, and local files that the library reads.

The library `datasets` is the extra `fleetsim[hf]`. Nothing is fetched from a network.
"""

import importlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.host.csv_rows import SEPARATORS, head_of, separators_of
from fleetsim.host.user_code import user_code

_BATCH = 1000
"""Rows at a time: pictures of a whole set would take memory twice."""
_READERS = {
    ".parquet": "from_parquet",
    ".csv": "from_csv",
    ".json": "from_json",
    ".jsonl": "from_json",
    ".arrow": "from_file",
}
"""Reader of each suffix, a class method of `datasets.Dataset`."""


def from_files(path: Path, place: str) -> Any:
    """Return the data set in a local file, or in a folder that `save_to_disk` wrote."""
    library = _library(place)
    if paths.is_folder(path):
        with user_code(f"{place}: reading {path}", DataError), _quiet(library):
            return library.load_from_disk(str(path))
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise DataError(
            f"{place}: {path} is neither a folder nor a file of {', '.join(_READERS)}; save it as"
            " one of these"
        )
    if not paths.is_file(path):
        raise DataError(f"{place}: there is no file {path}; correct the path")
    options = _of_csv(path, place) if path.suffix == ".csv" else {}
    with user_code(f"{place}: reading {path}", DataError), _quiet(library):
        return getattr(library.Dataset, reader)(str(path), **options)


def _of_csv(path: Path, place: str) -> dict[str, Any]:
    """Return options of the library for a CSV file: its separator, and only empty fields missing.

    By default pandas takes words such as None and NA for missing values, in labels and names too.
    """
    with paths.opened(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        seen = separators_of(head_of(text)) or (",",)
    if len(seen) > 1:
        names = " or ".join(SEPARATORS[separator] for separator in seen)
        raise DataError(
            f"{place}: the fields of {path} could be separated by {names}; read it with"
            " pandas.read_csv(sep=...) and give the table"
        )
    return {"sep": seen[0], "keep_default_na": False, "na_values": [""]}


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Hide the library's progress bars within the block."""
    were_shown = not library.are_progress_bars_disabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if were_shown:
            library.enable_progress_bars()


def column(table: Any, key: str) -> Any:
    """Return a column of a `datasets.Dataset`: an array [n, ...], or a list of n samples."""
    if table.format["type"] is None:
        table = table.with_format("numpy")
    parts = [table[first : first + _BATCH][key] for first in range(0, len(table), _BATCH)]
    is_uniform = all(isinstance(part, np.ndarray) and part.dtype.kind != "O" for part in parts)
    if is_uniform and len({part.shape[1:] for part in parts}) == 1:
        array = np.concatenate(parts)
        # The library widens whole numbers, and would make tokens of bytes.
        return array.astype(np.uint8) if _holds_bytes(table.features[key]) else array
    samples: list[Any] = [value for part in parts for value in part]
    if _holds_bytes(table.features[key]):
        samples = [np.asarray(value, dtype=np.uint8) for value in samples]
    return samples


def _holds_bytes(feature: Any) -> bool:
    """Return whether a column holds numbers of uint8, as lists or arrays."""
    while isinstance(feature, Sequence) and not isinstance(feature, str) and len(feature) == 1:
        feature = feature[0]
    while hasattr(feature, "feature"):
        feature = feature.feature
    return getattr(feature, "dtype", None) == "uint8"


def _library(place: str) -> Any:
    """Import the library."""
    try:
        return importlib.import_module("datasets")
    except ModuleNotFoundError:
        raise ScenarioError(
            f"{place}: files are read by the library datasets; pip install 'fleetsim[hf]',"
            " or give what pandas.read_csv returns"
        ) from None
