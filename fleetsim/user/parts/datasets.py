"""Data sets of the user's own."""

import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fleetsim.contracts import DatasetSource
from fleetsim.errors import DataError
from fleetsim.host.user_code import user_code
from fleetsim.learning import global_generators
from fleetsim.learning.data.dataset import AccessedInputs, ByteImages, Dataset, content_sha256
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.loading import DatasetSettings
from fleetsim.quoting import type_name
from fleetsim.user.data.user_dataset import UserDataset, dataset
from fleetsim.user.plugin import PluginKind, PluginSettings, accepts, kinds_of, name_of
from fleetsim.user.watched_calls import WatchedCalls, faults_of, refused, same

_NUMBERS = (np.dtype(np.float32), np.dtype(np.int64))


def dataset_fault(dataset: Dataset) -> str | None:
    """Return what is wrong with the arrays of a data set, beginning with `whose`; None if nothing.

    `fleetsim.learning.data.dataset.Dataset` says what they are.
    """
    if dataset.accessed is not None:
        return "whose accessed is set; return fleetsim.dataset(..., transform_each_access=True)"
    for part in ("train", "test"):
        inputs = getattr(dataset, f"{part}_inputs")
        labels = getattr(dataset, f"{part}_labels")
        if (message := _part_fault(part, inputs, labels, dataset.num_classes)) is not None:
            return f"whose {message}"
    for name in ("inputs", "labels"):
        train, test = (getattr(dataset, f"{part}_{name}").shape[1:] for part in ("train", "test"))
        if train != test:
            return f"whose test_{name} are of shape {test} each, and train_{name} of {train}"
    return _owner_fault(dataset) or _token_fault(dataset)


def _part_fault(part: str, inputs: Any, labels: Any, num_classes: int) -> str | None:
    is_bytes = isinstance(inputs, ByteImages) and part == "train"
    if not is_bytes and not (isinstance(inputs, np.ndarray) and inputs.dtype in _NUMBERS):
        return f"{part}_inputs are {_described(inputs)}, not an array of float32 or int64"
    if len(inputs.shape) < 2:
        return f"{part}_inputs have shape {inputs.shape}; give one sample per row"
    if not isinstance(labels, np.ndarray) or labels.dtype != np.int64:
        return f"{part}_labels are {_described(labels)}, not an array of int64"
    if len(labels) != len(inputs) or len(labels) == 0:
        return f"{part} part has {len(inputs)} inputs and {len(labels)} labels"
    if labels.ndim not in (1, 2):
        return f"{part}_labels have shape {labels.shape}, not [n] or [n, t]"
    if labels.min() < 0 or labels.max() >= num_classes:
        return (
            f"{part}_labels are {labels.min()} to {labels.max()}, outside 0 to {num_classes - 1}"
            " (num_classes - 1)"
        )
    if not is_bytes and inputs.dtype == np.float32 and not np.isfinite(inputs).all():
        rows = np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        return f"{part}_inputs hold NaN or an infinite number in sample {rows.argmin()}"
    return None


def _owner_fault(dataset: Dataset) -> str | None:
    owner: Any = dataset.owner
    num, names = len(dataset.train_labels), dataset.owner_names
    if owner is None:
        return None
    if not isinstance(owner, np.ndarray) or owner.dtype != np.int64 or owner.shape != (num,):
        return f"whose owner is {_described(owner)}, not int64 of shape ({num},)"
    if not np.array_equal(np.unique(owner), np.arange(owner.max() + 1)):
        return "whose owner skips a number; clients are 0, 1, 2 ..."
    if names is not None and len(names) != owner.max() + 1:
        return f"whose owner_names are {len(names)} for {owner.max() + 1} clients"
    return None


def _token_fault(dataset: Dataset) -> str | None:
    size = dataset.vocabulary_size
    inputs = dataset.train_inputs
    if isinstance(inputs, ByteImages) or inputs.dtype != np.int64:
        return None if size is None else "whose vocabulary_size is for tokens, int64 inputs"
    if size is None:
        return "whose inputs are tokens; give vocabulary_size"
    for part in (inputs, dataset.test_inputs):
        if part.min() < 0 or part.max() >= size:
            return f"whose tokens are {part.min()} to {part.max()}, outside 0 to {size - 1}"
    return None


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"of type {type_name(value)}"


_PURPOSE = "data/plug-in"
_READ_TWICE_BYTE = 64 * 2**20
"""Most bytes of data that every run reads twice, to see that they are the same; larger ones are
compared when a run is resumed."""
_HASH_LENGTH = 16
_GIVEN = re.compile(rf".*:[0-9a-f]{{{_HASH_LENGTH}}}")
"""Word of data that were given from Python: a name and the beginning of their digest."""

_SEED, _NUM_CLIENTS = 1, 5
_NUM_READ = 50
"""Samples that are made twice where they are made at each access."""
_APART = "the second time; it must use neither a clock, nor draws without a seed of its own"
_ARRAYS = ("train_inputs", "train_labels", "test_inputs", "test_labels", "owner")


class DatasetPluginSettings(PluginSettings, DatasetKind):
    """Settings of a data set of the user's own."""

    how_to_get: ClassVar[str] = "a plug-in"
    has_user_files: ClassVar[bool] = True
    # The user's code does not run in a thread beside other imports.
    imports_library: ClassVar[bool] = True

    kind: str

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the data set."""

        def read() -> tuple[Any, Dataset]:
            with global_generators.addressed(seed, _PURPOSE):
                part = self.part()
                return part, loaded(part, self.plugin.label, seed=seed, num_clients=num_clients)

        part, result = read()
        if _runs_code(part) and result.size_byte <= _READ_TWICE_BYTE:
            again = read()[1]
            if content_sha256(again) != content_sha256(result):
                raise refused(self.plugin.label, f"load gives other data {_APART}")
        return result


class DatasetPlugins(PluginKind):
    """Kind of the data sets, at `task.dataset`."""

    name = "dataset"
    noun = "a data set"
    key_path = ("task", "dataset")
    protocol = DatasetSource
    marks = frozenset({"load"})
    bundled = kinds_of(DatasetSettings) | {"blank"}
    settings_base = DatasetPluginSettings
    page = "`fleetsim docs own-data`"
    takes_functions = True
    # Data are never changed, and read once.
    copies_objects = False

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function can be called with nothing, or with seed and num_clients."""
        return _asked(function) is not None

    @classmethod
    def of_object(cls, given: Any) -> tuple[object, str, Any]:
        """Return data that Python gives, with a name that ends with the digest of their content."""
        if _runs_code(given):
            return given, name_of(type(given)), type(given)
        data = given if isinstance(given, UserDataset) else dataset(given)
        return data, f"{data.name}:{data.sha256[:_HASH_LENGTH]}", None

    @classmethod
    def hint(cls, word: str) -> str:
        """Return how to give the data that a scenario asks for by their word."""
        if _GIVEN.fullmatch(word):
            return "give the same data from Python, by fleetsim.run(..., dataset=...)"
        return super().hint(word)

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object cannot be a data set; None if it can, once it is read."""
        if hasattr(made, "load") and _asked(made.load) is None:
            return f"cannot be called as load() or load(seed); {cls.page} has an example"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `PluginKind.check`."""

        def read() -> Dataset:
            with faults_of(calls.label, DataError):
                return loaded(make(), calls.label, seed=_SEED, num_clients=_NUM_CLIENTS)

        first, second = (calls.watched("load", read) for _ in range(2))
        if first.accessed is not None and second.accessed is not None:
            _check_access(first.accessed, second.accessed, calls)
        for name in _ARRAYS:
            one, two = getattr(first, name), getattr(second, name)
            if not same(one, two):
                raise calls.refused(f"load gives other {name} {_APART}")
        sizes = [(each.num_classes, each.vocabulary_size) for each in (first, second)]
        if sizes[0] != sizes[1]:
            raise calls.refused("load gives another number of classes or tokens the second time")


def loaded(part: Any, label: str, *, seed: int, num_clients: int) -> Dataset:
    """Return the data set of an object with `load`, which may ask for both numbers, or of data."""
    result = part
    if _runs_code(part):
        given = {"seed": seed, "num_clients": num_clients}
        asked = _asked(part.load) or ()
        with user_code(f"{label}: load"):
            result = part.load(**{name: given[name] for name in asked})
    if isinstance(result, Dataset):
        if (message := dataset_fault(result)) is not None:
            raise refused(label, f"load returned a data set {message}")
        return result
    if isinstance(result, UserDataset):
        return result.load()
    data = dataset(result)
    data.place = "what load returned" if _runs_code(part) else label
    return data.load()


def _runs_code(part: Any) -> bool:
    """Return whether an object reads its data by a method of the user's own."""
    return hasattr(part, "load") and not isinstance(part, UserDataset)


def _asked(load: Callable[..., Any]) -> list[str] | None:
    """Return which of seed and num_clients a `load` asks for; None if it cannot be called so."""
    parameters = inspect.signature(load).parameters
    asked = [name for name in ("seed", "num_clients") if name in parameters]
    return asked if accepts(load, **dict.fromkeys(asked, 0)) else None


def _check_access(first: AccessedInputs, second: AccessedInputs, calls: WatchedCalls) -> None:
    """Check that samples which are made at each access depend on its address alone."""
    rows = np.arange(min(_NUM_READ, len(first)))
    with faults_of(calls.label, DataError):
        one, two = (
            each.taken(order, [0] * len(rows), seed=_SEED, address=(0,))
            for each, order in ((first, rows), (second, rows[::-1]))
        )
    unlike = np.flatnonzero((one != two[::-1]).reshape(len(rows), -1).any(axis=1))
    if unlike.size:
        raise calls.refused(
            f"item {first.items[unlike[0]]} gives two samples at one address; what it draws must"
            " come from the global generators, which are seeded for it, and nothing from earlier"
            " reads"
        )
