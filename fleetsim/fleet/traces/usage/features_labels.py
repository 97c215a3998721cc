"""ExtraSensory as published: `UUID.features_labels.csv.gz`, of which the state of the phone.

One gzipped CSV file per person, whose columns of phone state are one-hot: each is 1 in the rows in
which the state holds. `timestamp` is in Unix seconds. The same files are the data set
`extrasensory-har`, whose clients are the same people: `fleet.usage.pair: owner` joins them.
"""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.files import records_of_people
from fleetsim.fleet.traces.usage.records import Unknown, UsageRecords
from fleetsim.host import paths
from fleetsim.host.unpacking import gunzip

SUFFIXES: Final = (".features_labels.csv.gz", ".features_labels.csv")
_TIME: Final = "timestamp"
_CHARGING: Final = (
    *(f"discrete:battery_plugged:is_{name}" for name in ("ac", "usb", "wireless")),
    *(f"discrete:battery_state:is_{name}" for name in ("charging", "full")),
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


def read_features_labels(source: Path, unknown: Unknown) -> UsageRecords:
    """Read the phone state of all people in a folder, or of one file.

    The states and times without a sample are those of `files.read_samples`. Rows are sorted by
    time, and of several rows of one second the last one counts; both are counted in the notes.
    """
    people = people_in(source)
    if not people:
        raise DataError(
            f"{source}: no *{SUFFIXES[0]} in it; unpack"
            " ExtraSensory.per_uuid_features_labels.zip there, or name one person's file"
        )
    times_s, states = zip(*map(_person, people), strict=True)
    unix_s = np.concatenate(times_s)
    records = records_of_people(
        str(source),
        tuple(map(person_of, people)),
        np.repeat(np.arange(len(people)), [at_s.size for at_s in times_s]),
        unix_s,
        {name: np.concatenate([each[name] for each in states]) for name in states[0]},
        unknown,
    )
    return replace(
        records, notes=(f"{unix_s.size} rows of {len(people)} people read", *records.notes)
    )


def columns_of(content: bytes, place: str, columns: Sequence[str]) -> FloatArray:
    """Return some columns of a person's file [rows, columns], from its bytes, gzipped or not."""
    header, _, body = gunzip(content, place).partition(b"\n")
    names = header.decode("utf-8", "replace").strip().split(",")
    missing = [name for name in columns if names.count(name) != 1]
    if missing:
        raise DataError(
            f"{place}, row 1: the columns {', '.join(missing[:3])} are not there once each"
            f" ({len(missing)} of {len(columns)} in all); this is no file of ExtraSensory's"
        )
    if not body.strip():
        raise DataError(f"{place}, row 2: the table is empty; get it anew")
    try:
        # Four times as fast as `csv_table` for the dozen of 280 columns that are read.
        return np.loadtxt(
            io.BytesIO(body),
            delimiter=",",
            comments=None,
            usecols=[names.index(name) for name in columns],
            ndmin=2,
            encoding="utf-8",
        )
    except (ValueError, UnicodeDecodeError) as fault:
        message = " ".join(str(fault).split())[:200]
        raise DataError(f"{place}, below the header: {message}; get it anew") from fault


def _person(path: Path) -> tuple[IntArray, dict[str, FloatArray]]:
    """Return times in Unix seconds, and states (NaN: not stated), of one file."""
    table = columns_of(paths.read(path), str(path), _COLUMNS)
    at_s = table[:, 0]
    for row in np.flatnonzero(~((at_s >= 0.0) & (at_s < 1e11)))[:1]:
        raise DataError(
            f"{path}, row {row + 2}: {_TIME} = {at_s[row]:g} is no Unix time in seconds; get it"
            " anew"
        )

    def stated(yes: tuple[str, ...], no: tuple[str, ...]) -> FloatArray:
        holds = [
            (table[:, [_COLUMNS.index(name) for name in names]] == 1.0).any(axis=1)
            for names in (yes, no)
        ]
        return np.select(holds, [1.0, 0.0], np.nan)

    states = {"charging": stated(_CHARGING, _NOT_CHARGING), "unmetered": stated(_WIFI, _NOT_WIFI)}
    return np.floor(at_s).astype(np.int64), states
