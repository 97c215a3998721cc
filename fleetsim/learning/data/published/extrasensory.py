"""ExtraSensory: activities of people by the sensors of their phones, one client per person.

The primary data are one gzipped CSV file per person, `UUID.features_labels.csv.gz`, with the
columns `timestamp` (s), the features, one `label:NAME` per label (0, 1 or nan) and `label_source`
(README.txt of extrasensory.ucsd.edu, data/primary_data_files). docs/data.md says which of them are
used, and why the last fifth of each person's samples in time is for testing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.features_labels import SUFFIXES, columns_of, people_in
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset, standardise
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.archives import opened_zip, zip_content
from fleetsim.learning.data.formats.npz import read_npz
from fleetsim.learning.data.published.fetch import named_folder, search_folders

KIND = "extrasensory-har"
CLASSES = ("LYING_DOWN", "SITTING", "OR_standing", "FIX_walking", "FIX_running", "BICYCLING")
"""Names of the labels 0..5, as in the files."""

_ARCHIVE = "ExtraSensory.per_uuid_features_labels.zip"
_MAX_MEMBER_BYTE = 200_000_000
_TEST_DIVISOR = 5
_STATISTICS = (
    *(f"magnitude_stats:{name}" for name in ("mean", "std", "moment3", "moment4")),
    *(f"magnitude_stats:percentile{percent}" for percent in (25, 50, 75)),
    *(f"magnitude_stats:{name}" for name in ("value_entropy", "time_entropy")),
    *(f"magnitude_spectrum:log_energy_band{band}" for band in range(5)),
    "magnitude_spectrum:spectral_entropy",
    *(f"magnitude_autocorrelation:{name}" for name in ("period", "normalized_ac")),
    *(f"3d:{name}_{axis}" for name in ("mean", "std") for axis in "xyz"),
    *(f"3d:ro_{axes}" for axes in ("xy", "xz", "yz")),
)
FEATURES = tuple(f"{sensor}:{name}" for sensor in ("raw_acc", "proc_gyro") for name in _STATISTICS)
"""The 52 features, as in the files."""

_COLUMNS = ("timestamp", *FEATURES, *(f"label:{name}" for name in CLASSES))
_ARRAYS = ("x", "y", "user", "t", "feature_names", "class_names")


class ExtraSensorySettings(DatasetKind):
    """ExtraSensory: activities of people by 52 features of phone sensors (Vaizman 2017)."""

    how_to_get: ClassVar[str] = "by hand, see `fleetsim docs data`"

    kind: Literal["extrasensory-har"] = "extrasensory-har"
    folder: str | None = None
    """Folder with the published archive, with its CSV files of some or all people, or with one .npz
    file of the same samples; by default `$FLEETSIM_DATA` and then the cache."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return all people with their last minutes as the test part, features standardised."""
        minutes, names = _minutes(_home(named_folder(self.folder)))
        order = np.lexsort((minutes.at_s, minutes.person))
        person = minutes.person[order]
        _, first, count = np.unique(person, return_index=True, return_counts=True)
        rank = np.arange(len(person)) - np.repeat(first, count)
        is_test = rank >= np.repeat(count - count // _TEST_DIVISOR, count)
        if not is_test.any():
            raise DataError(
                f"ExtraSensory: {len(person)} usable samples of {len(first)} people are too few;"
                f" each needs {_TEST_DIVISOR} or more for one to test on"
            )
        features, labels = minutes.features[order], minutes.labels[order]
        train, test = features[~is_test], features[is_test]
        standardise(train, test)
        people, owner = np.unique(person[~is_test], return_inverse=True)
        return Dataset(
            name=self.kind,
            train_inputs=train,
            train_labels=labels[~is_test],
            test_inputs=test,
            test_labels=labels[is_test],
            num_classes=len(CLASSES),
            owner=owner.astype(np.int64),
            owner_names=tuple(names[number] for number in people.tolist()),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Minutes:
    """Samples of one or more people."""

    features: NDArray[np.float32]
    """[n, 52], in the order of `FEATURES`."""
    labels: IntArray
    """[n] in 0..5, see `CLASSES`."""
    person: IntArray
    """[n]"""
    at_s: NDArray[np.float64]
    """Seconds since 1970 [n]."""


def _home(folder: Path | None) -> Path:
    """Return the first folder that contains the set in one of its forms."""
    homes = search_folders(KIND, folder)
    for home in homes:
        if paths.is_folder(home) and (
            paths.is_file(home / _ARCHIVE) or people_in(home) or paths.matches(home, "*.npz")
        ):
            return home
    searched = ", ".join(map(str, homes))
    raise DataError(
        f"data set {KIND} not found: neither {_ARCHIVE} nor *{SUFFIXES[0]} nor an .npz file is in "
        f"{searched}; get the first from http://extrasensory.ucsd.edu/data/primary_data_files/ and "
        "put it there"
    )


def _minutes(home: Path) -> tuple[Minutes, Mapping[int, str]]:
    """Return all samples in a folder, and the name of each person by number, such as a UUID."""
    if not paths.is_file(home / _ARCHIVE) and not people_in(home):
        arrays = paths.matches(home, "*.npz")
        if len(arrays) > 1:
            raise DataError(f"{home} has {arrays[0].name} and {arrays[1].name}; remove one")
        minutes = read_arrays(arrays[0])
        return minutes, {number: str(number) for number in np.unique(minutes.person).tolist()}
    parts, names = [], {}
    for number, (name, place, content) in enumerate(_people(home)):
        parts.append(read_person(content, place, number))
        names[number] = name.partition(".")[0]
    if not parts:
        raise DataError(f"{home / _ARCHIVE}: holds no file that ends in {SUFFIXES[0]}; get it anew")
    columns = ([getattr(part, field.name) for part in parts] for field in fields(Minutes))
    return Minutes(*map(np.concatenate, columns)), names


def _people(home: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, place and bytes of each person's file, from the published archive or a folder."""
    archive = home / _ARCHIVE
    if not paths.is_file(archive):
        for path in people_in(home):
            yield path.name, str(path), paths.read(path)
        return
    with opened_zip(archive) as packed:
        members = {
            PurePosixPath(member.filename).name: member
            for member in packed.infolist()
            if member.filename.endswith(SUFFIXES[0])
        }
        for name, member in sorted(members.items()):
            content = zip_content(packed, member, archive, max_byte=_MAX_MEMBER_BYTE)
            yield name, f"{archive}, {name}", content


def read_person(content: bytes, place: str, person: int) -> Minutes:
    """Return the usable samples in the bytes of one person's CSV file, gzipped or not."""
    table = columns_of(content, place, _COLUMNS)
    features = table[:, 1 : 1 + len(FEATURES)].astype(np.float32)
    is_label = table[:, 1 + len(FEATURES) :] == 1.0
    usable = np.isfinite(features).all(axis=1) & (is_label.sum(axis=1) == 1)
    return Minutes(
        features[usable],
        np.argmax(is_label[usable], axis=1).astype(np.int64),
        np.full(int(usable.sum()), person, np.int64),
        table[usable, 0],
    )


def read_arrays(path: Path) -> Minutes:
    """Return the samples in an .npz file: `x` [n, 52], `y` [n], `user` [n], `t` [n].

    `feature_names` [52] and `class_names` [6] in it must be `FEATURES` and `CLASSES`.
    """
    arrays = read_npz(path, _ARRAYS)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise DataError(f"{path}: lacks the arrays {', '.join(missing)}; write it anew")
    for name, expected in (("feature_names", FEATURES), ("class_names", CLASSES)):
        if arrays[name].tolist() != list(expected):
            raise DataError(f"{path}: {name} are not ExtraSensory's, in their order")
    x, y, user, t = (arrays[name] for name in ("x", "y", "user", "t"))
    if x.ndim != 2 or x.shape[1] != len(FEATURES) or x.dtype.kind != "f":
        raise DataError(f"{path}: x is {x.dtype} {x.shape}, expected floats [n, {len(FEATURES)}]")
    for name, array, kinds in (("y", y, "iu"), ("user", user, "iu"), ("t", t, "iuf")):
        if array.shape != (len(x),) or array.dtype.kind not in kinds:
            raise DataError(
                f"{path}: {name} is {array.dtype} {array.shape}, expected numbers [{len(x)}]"
            )
    if not np.isfinite(x).all() or not np.isfinite(t).all():
        raise DataError(f"{path}: x or t holds numbers that are NaN or not finite; remove them")
    if y.size and not 0 <= y.min() <= y.max() < len(CLASSES):
        raise DataError(f"{path}: y holds labels outside 0..{len(CLASSES) - 1}")
    return Minutes(
        x.astype(np.float32), y.astype(np.int64), user.astype(np.int64), t.astype(np.float64)
    )
