"""Data sets of the user's own."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from fleetsim.contracts import DatasetSource
from fleetsim.errors import DataError
from fleetsim.host.user_code import user_code
from fleetsim.learning import global_generators
from fleetsim.learning.data.accessed_inputs import AccessedInputs
from fleetsim.learning.data.dataset import ByteImages, Dataset, content_sha256
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.loading import DatasetSettings
from fleetsim.user import identity
from fleetsim.user.data.checked_dataset import dataset_fault
from fleetsim.user.data.user_dataset import UserDataset, dataset
from fleetsim.user.plugin import PluginSettings
from fleetsim.user.plugin_kind import PluginKind, accepts, kinds_of
from fleetsim.user.watched_calls import WatchedCalls, refused

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
    page = "docs/own-data.md"
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
            return given, identity.name_of(type(given)), type(given)
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
            with _data_faults(calls):
                return loaded(make(), calls.label, seed=_SEED, num_clients=_NUM_CLIENTS)

        first, second = (calls.watched("load", read) for _ in range(2))
        if first.accessed is not None and second.accessed is not None:
            _check_access(first.accessed, second.accessed, calls)
        for name in _ARRAYS:
            one, two = getattr(first, name), getattr(second, name)
            if not _equal(one, two):
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
        message = dataset_fault(result)
        if message is not None:
            raise refused(label, f"load returned a data set {message}")
        return result
    if isinstance(result, UserDataset):
        return result.load()
    data = dataset(result)
    data.place = label
    return data.load()


def _runs_code(part: Any) -> bool:
    """Return whether an object reads its data by a method of the user's own."""
    return hasattr(part, "load") and not isinstance(part, UserDataset)


def _asked(load: Callable[..., Any]) -> list[str] | None:
    """Return which of seed and num_clients a `load` asks for; None if it cannot be called so."""
    parameters = inspect.signature(load).parameters
    asked = [name for name in ("seed", "num_clients") if name in parameters]
    return asked if accepts(load, **dict.fromkeys(asked, 0)) else None


@contextmanager
def _data_faults(calls: WatchedCalls) -> Iterator[None]:
    """Tell faults of the data in the block as those of the plug-in."""
    try:
        yield
    except DataError as fault:
        raise calls.refused(str(fault).removeprefix(f"{calls.label}: ")) from fault


def _check_access(first: AccessedInputs, second: AccessedInputs, calls: WatchedCalls) -> None:
    """Check that samples which are made at each access depend on its address alone."""
    rows = np.arange(min(_NUM_READ, len(first)))
    with _data_faults(calls):
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


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, ByteImages) and isinstance(two, ByteImages):
        return (one.mean, one.std) == (two.mean, two.std) and np.array_equal(one.pixels, two.pixels)
    return type(one) is type(two) and np.array_equal(one, two)
