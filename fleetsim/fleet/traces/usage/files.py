"""Reading and writing of usage traces in CSV files, whose headers determine the form.

docs/models/usage.md has every form and column. Every file may be gzipped (.csv.gz). Other formats
are converted first (`importing`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from fleetsim.errors import DataError
from fleetsim.fleet.traces.csv_table import read_csv_header
from fleetsim.fleet.traces.folder import csv_gz, is_unfit, readme, write_files
from fleetsim.fleet.traces.usage import csv_forms as forms
from fleetsim.fleet.traces.usage.records import Unknown, UsageRecords, local_days
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.host import paths
from fleetsim.quoting import quoted

_COLUMNS = """`users.csv.gz`: one row per user.

| column | unit | meaning |
|---|---|---|
| user | - | name of the user |
| span_s | s | length of the record; then it begins anew |

`states.csv.gz`: one row per change, sorted by user and time; a state holds until the next row.

| column | unit | meaning |
|---|---|---|
| user | - | name of the user |
| t_s | s | whole seconds after the beginning of the user's record |
| online | 0/1 | reachable by the server |
| charging | 0/1 | on the charger |
| unmetered | 0/1 | on a network that costs nothing by the byte |
| load | fraction | share of the processor that other apps take, in [0, 1) |
"""

CsvForm = Literal["states", "intervals", "flhetbench", "extrasensory"]

_IMPORTED = {".json": "flash", ".pkl": "fedscale", ".pickle": "fedscale"}


def read_trace(folder_or_file: Path, *, unknown: Unknown = "hold") -> Trace:
    """Read a trace of any form, by its main file or the folder that holds it.

    `unknown` is the state at times without any sample (extrasensory only).
    """
    main = main_file(folder_or_file)
    return local_days(read_records(main, form_of(main), unknown))


def read_records(main: Path, form: CsvForm, unknown: Unknown) -> UsageRecords:
    """Read a main file of a known form."""
    match form:
        case "states":
            return forms.read_states(main)
        case "intervals" | "flhetbench":
            return forms.read_intervals(main)
        case "extrasensory":
            return forms.read_samples(main, unknown)


def main_file(path: Path) -> Path:
    """Return the main file of a trace that is named by its folder or by that file."""
    if not paths.is_folder(path):
        suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if suffix in _IMPORTED:
            raise DataError(
                f"{path}: is no CSV file; convert it first: fleetsim trace import"
                f" {_IMPORTED[suffix]} {path} NEW_FOLDER"
            )
        return path
    result = sorted(
        child
        for pattern in ("states*.csv", "states*.csv.gz", "intervals.csv", "intervals.csv.gz")
        for child in paths.matches(path, pattern)
    )
    if not result:
        raise DataError(f"{path}: no states.csv or intervals.csv (or .csv.gz) in it; add one")
    if len(result) > 1:
        names = ", ".join(child.name for child in result)
        raise DataError(f"{path}: holds {names}; name the file that you mean")
    return result[0]


def form_of(main: Path) -> CsvForm:
    """Return the form of a main file by its header and that of the users' file."""
    header = read_csv_header(main)
    if header in (forms.STATES_HEADER, forms.RAM_STATES_HEADER):
        return "states"
    if header == forms.INTERVALS_HEADER:
        is_theirs = read_csv_header(forms.users_file(main)) == forms.INTERVALS_USERS_HEADER
        return "flhetbench" if is_theirs else "intervals"
    if header[: len(forms.SAMPLES_HEADER)] == forms.SAMPLES_HEADER:
        return "extrasensory"
    known = (
        forms.RAM_STATES_HEADER,
        forms.STATES_HEADER,
        forms.INTERVALS_HEADER,
        (*forms.SAMPLES_HEADER, "..."),
    )
    raise DataError(
        f"{main}, row 1: unknown header {quoted(','.join(header))};"
        f" must be {' or '.join(','.join(names) for names in known)}"
    )


def write_trace(
    trace: Trace,
    folder: Path,
    *,
    readme: str | None = None,
    notes: Sequence[str] = (),
    rules: str = "",
) -> None:
    """Write a trace in fleetsim's own form: states.csv.gz, users.csv.gz and README.md.

    The same trace gives the same bytes. Without a text for README.md, it explains the columns, with
    the notes and the rules of the import.
    """
    for user in trace.user_ids:
        if is_unfit(user):
            raise DataError(
                f"trace {quoted(trace.name)}: user {quoted(user)} has a comma, quote, line end or"
                " invalid text; rename it"
            )
    users = zip(trace.user_ids, trace.span_s.tolist(), strict=True)
    online, charging, unmetered, load, ram_byte = trace.columns
    header = forms.RAM_STATES_HEADER if ram_byte.any() else forms.STATES_HEADER
    columns = [
        np.repeat(np.array(trace.user_ids, dtype=object), np.diff(trace.offsets)).tolist(),
        trace.times_s.tolist(),
        *(flag.astype(np.int64).tolist() for flag in (online, charging, unmetered)),
        [share or 0 for share in load.tolist()],
        ram_byte.tolist(),
    ]
    states = zip(*columns[: len(header)], strict=True)
    files = {
        "users.csv.gz": csv_gz(forms.USERS_HEADER, users),
        "states.csv.gz": csv_gz(header, states),
        "README.md": (readme or _readme(trace, notes, rules)).encode(),
    }
    write_files(folder, files)


def _readme(trace: Trace, notes: Sequence[str], rules: str) -> str:
    source = "/".join(Path(trace.name).parts[-2:])
    size = f"{trace.num_users} users, {trace.num_changes} changes of state"
    about = f"# Usage trace\n\n{size}, converted from `{source}`."
    ram = "| ram_byte | byte | memory that other apps take |\n" if trace.columns[4].any() else ""
    return readme(about, notes, rules, _COLUMNS + ram)
