"""ExtraSensory as published: `UUID.features_labels.csv.gz`, of which the state of the phone.

One gzipped CSV file per person, whose columns of phone state are one-hot: each is 1 in the rows in
which the state holds. `timestamp` is in Unix seconds. The same files are the data set
`extrasensory-har`, whose clients are the same people: `fleet.usage.pair: owner` joins them.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.csv_forms import (
    Unknown,
    records_of_samples,
)
from fleetsim.fleet.traces.usage.records import Records
from fleetsim.host import paths
from fleetsim.host.unpacking import gunzip

SUFFIXES: Final = (".features_labels.csv.gz", ".features_labels.csv")
_TIME: Final = "timestamp"
_CHARGING: Final = tuple(
    f"discrete:{name}"
    for name in (
        "battery_plugged:is_ac",
        "battery_plugged:is_usb",
        "battery_plugged:is_wireless",
        "battery_state:is_charging",
        "battery_state:is_full",
    )
)
_NOT_CHARGING: Final = tuple(
    f"discrete:battery_state:is_{name}" for name in ("unplugged", "not_charging", "discharging")
)
_WIFI: Final = ("discrete:wifi_status:is_reachable_via_wifi",)
_NOT_WIFI: Final = tuple(
    f"discrete:wifi_status:is_{name}" for name in ("not_reachable", "reachable_via_wwan")
)
_COLUMNS: Final = (_TIME, *_CHARGING, *_NOT_CHARGING, *_WIFI, *_NOT_WIFI)


def people_in(source: Path) -> list[Path]:
    """Return the published files of a folder, one per person, in the order of their ids.

    Of a person with a packed and an unpacked file the packed one counts. A file stands for itself.
    """
    if not paths.is_folder(source):
        return [source]
    by_person: dict[str, Path] = {}
    for suffix in SUFFIXES[::-1]:
        for path in paths.matches(source, f"*{suffix}"):
            by_person[person_of(path)] = path
    return [by_person[person] for person in sorted(by_person)]


def person_of(path: Path) -> str:
    """Return the id of the person of a file: its name without the ending."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.name.partition(".")[0]


def read_features_labels(source: Path, unknown: Unknown) -> Records:
    """Read the phone state of all people in a folder, or of one file.

    The states and times without a sample are those of `csv_forms.read_samples`. Rows are sorted by
    time, and of several rows of one second the last one counts; both are counted in the notes.

    Raises:
        DataError: there is no such file, it is damaged, lacks a column, or a cell is no number.
    """
    people = people_in(source)
    if not people:
        raise DataError(
            f"{source}: no *{SUFFIXES[0]} in it; unpack"
            " ExtraSensory.per_uuid_features_labels.zip there, or name one person's file"
        )
    columns = [_person(path) for path in people]
    size = [at_s.size for at_s, _, _ in columns]
    unix_s, charging, unmetered = map(np.concatenate, zip(*columns, strict=True))
    user = np.repeat(np.arange(len(people)), size)
    records = records_of_samples(
        str(source),
        tuple(map(person_of, people)),
        user,
        unix_s,
        charging,
        unmetered,
        unknown,
    )
    notes = (f"{unix_s.size} rows of {len(people)} people read", *records.notes)
    return Records(records.trace, records.begin_s, records.utc_offset_s, notes)


def _person(path: Path) -> tuple[IntArray, IntArray, IntArray]:
    """Return times in Unix seconds, charging and unmetered (1, 0; -1: not stated) of one file."""
    content = gunzip(paths.read(path), str(path))
    header, _, body = content.partition(b"\n")
    names = header.decode("utf-8", "replace").strip().split(",")
    missing = [name for name in _COLUMNS if names.count(name) != 1]
    if missing:
        raise DataError(
            f"{path}, row 1: the columns {', '.join(missing[:3])} are not there once each"
            f" ({len(missing)} of {len(_COLUMNS)} in all); this is no file of ExtraSensory's"
        )
    if not body.strip():
        raise DataError(f"{path}, row 2: there are no rows below the header; get it anew")
    try:
        table: FloatArray = np.loadtxt(
            io.BytesIO(body),
            delimiter=",",
            comments=None,
            usecols=[names.index(name) for name in _COLUMNS],
            ndmin=2,
            encoding="utf-8",
        )
    except (ValueError, UnicodeDecodeError) as fault:
        says = " ".join(str(fault).split())[:200]
        raise DataError(f"{path}, below the header: {says}; get it anew") from fault
    at_s = table[:, 0]
    wrong = np.flatnonzero(~((at_s >= 0.0) & (at_s < 1e11)))
    if wrong.size:
        raise DataError(
            f"{path}, row {wrong[0] + 2}: {_TIME} = {at_s[wrong[0]]:g} is no Unix time in seconds;"
            " get it anew"
        )

    def holds(columns: tuple[str, ...]) -> BoolArray:
        found: BoolArray = (table[:, [_COLUMNS.index(name) for name in columns]] == 1.0).any(axis=1)
        return found

    def stated(yes: tuple[str, ...], no: tuple[str, ...]) -> IntArray:
        return np.where(holds(yes), 1, np.where(holds(no), 0, -1))

    return (
        np.floor(at_s).astype(np.int64),
        stated(_CHARGING, _NOT_CHARGING),
        stated(_WIFI, _NOT_WIFI),
    )
