"""The user's own data set as given from Python: its forms, its options, and its reading."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.host.user_code import user_code
from fleetsim.learning.data.dataset import Dataset, content_sha256
from fleetsim.learning.data.own_data import AssemblyRules, Wording, assembled
from fleetsim.quoting import quoted
from fleetsim.schema import faults
from fleetsim.schema.python_data import document_of
from fleetsim.user.data import rows
from fleetsim.user.data.reading import read_for_access, read_once
from fleetsim.user.data.rows import Fields, Key

_PARTS = ("train", "test")


@dataclass(eq=False)
class UserDataset:
    """The user's data and how they are read, when they are first asked for; `dataset` makes one."""

    name: str
    _train: Any
    _test: Any
    _fields: Fields
    _client: Any
    """Client of each training sample; None: the rows name it, if anything does."""
    _rules: AssemblyRules
    _transform: Callable[[Any], Any] | None
    _test_transform: Callable[[Any], Any] | None
    _is_each_access: bool

    def __post_init__(self) -> None:
        self.place = f"data set {self.name}"
        """Name of the data set in messages."""

    def load(self) -> Dataset:
        """Return the data set, read when it is first asked for."""
        return self._loaded

    @cached_property
    def sha256(self) -> str:
        """Digest of the content; raises as `load`."""
        return content_sha256(self._loaded)

    @cached_property
    def _loaded(self) -> Dataset:
        with user_code(f"{self.place}: reading it", DataError):
            return self._read()

    def _read(self) -> Dataset:
        place = f"{self.place}: training part"
        source = _source(self._train, self._fields, place, self._transform)
        if self._is_each_access:
            train = read_for_access(source, self._client)
        else:
            hint = "set transform_each_access=True, or take what draws out"
            train = read_once(source, self._client, hint=hint)
        test = None
        if self._test is not None:
            fields = replace(self._fields, needs_client=False)
            place = f"{self.place}: test part"
            other = _source(self._test, fields, place, self._test_transform)
            hint = "the test part is fixed: take what draws out, or give a test_transform"
            test = read_once(other, None, hint=hint)
        words = Wording(
            self.place, "", "give fleetsim.dataset (train, test), or {'train': ..., 'test': ...}"
        )
        return assembled(self.name, train, test, self._rules, words)


def _source(
    part: Any, fields: Fields, place: str, transform: Callable[[Any], Any] | None
) -> rows.Source:
    source = rows.source_of(part, fields, place)
    return source if transform is None else rows.Transformed(source, transform)


def dataset(
    data: Any,
    test: Any = None,
    *,
    inputs: Key | Sequence[Key] | None = None,
    label: Key | None = None,
    client: Key | Sequence[Any] | NDArray[Any] | None = None,
    test_fraction: float | None = None,
    standardise: bool = False,
    num_classes: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    test_transform: Callable[[Any], Any] | None = None,
    transform_each_access: bool = False,
    name: str = "own",
) -> UserDataset:
    """Return your own data as a data set for `fleetsim.run(..., dataset=...)`.

    Args:
        data: the training part, both parts as a pair (train, test), or a mapping with `train` and
            `test`. A part is a torch Dataset or other items by index, a pair of arrays (inputs,
            labels), a pandas DataFrame, a Hugging Face Dataset, a mapping of columns, or the path
            of a file that the library `datasets` reads.
        test: the test part, if `data` is the training part alone.
        inputs: column or key of the inputs, or several, whose numbers make a vector. None: the only
            ones besides label and client.
        label: column or key of the label. None: `label` or `labels`, or the second of a pair.
        client: column or key of the client that a sample belongs to, for the partition `natural`;
            or the client of each training sample [n]. None: there are none.
        test_fraction: share of every client's samples that becomes the test part, drawn at random
            but the same for every seed; for data without a test part.
        standardise: scale every channel of images, or every feature, to mean 0 and standard
            deviation 1 over the training part.
        num_classes: number of labels; None: the largest label of both parts plus one.
        transform: function from a sample, as the data have it, to the sample that is used.
        test_transform: the same for the test part; None: it is `transform`.
        transform_each_access: if true, training samples are read anew at each access, so that a
            random transform draws anew, by address. If false, they are read once.
        name: name of the data set in messages and in the run folder.

    Raises:
        ScenarioError: an option is out of range.
        DataError: a mapping has other keys than `train` and `test`.
    """
    if test is None:
        data, test = _parts(data)
    options = {
        "test_fraction": test_fraction,
        "standardise": standardise,
        "num_classes": num_classes,
    }
    key = client if isinstance(client, str | int) else None
    return UserDataset(
        name,
        data,
        test,
        Fields(inputs, label, key),
        client if key is None else None,
        faults.check(AssemblyRules, document_of(options, f"data set {name}")),
        transform,
        transform if test_transform is None else test_transform,
        transform_each_access,
    )


def _parts(data: Any) -> tuple[Any, Any]:
    """Return the training part and the test part; None for the latter if there is none."""
    if isinstance(data, Mapping) and _PARTS[0] in data:
        others = [key for key in data if key not in _PARTS]
        if others:
            raise DataError(
                f"data set: has the parts {', '.join(map(quoted, data))}; give the two that are"
                " used, such as (parts['train'], parts['test'])"
            )
        return data["train"], data.get("test")
    is_pair = isinstance(data, tuple) and len(data) == 2 and not rows.is_pair_of_arrays(data)
    return data if is_pair else (data, None)
