"""Import of published usage traces: one reader a format, and its options."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from fleetsim.errors import DataError
from fleetsim.fleet.traces.folder import new_folder
from fleetsim.fleet.traces.usage.features_labels import SUFFIXES, people_in, read_features_labels
from fleetsim.fleet.traces.usage.fedscale import read_fedscale
from fleetsim.fleet.traces.usage.files import CsvForm, form_of, main_file, read_records, write_trace
from fleetsim.fleet.traces.usage.flash import OnlineRule, read_flash
from fleetsim.fleet.traces.usage.flash_ready import read_flash_ready
from fleetsim.fleet.traces.usage.records import Unknown, UsageRecords, local_days
from fleetsim.host import paths

TraceFormat = Literal[
    "states", "intervals", "flhetbench", "extrasensory", "flash", "flash-ready", "fedscale"
]


def given_options(options: Any) -> list[str]:
    """Return the fields of a record of options that differ from their defaults, as options.

    >>> given_options(ImportOptions(utc_offset_h=2.0, whole_days=True))
    ['--utc-offset-h', '--whole-days']
    """
    names = [
        field.name for field in fields(options) if getattr(options, field.name) != field.default
    ]
    return [f"--{name.replace('_', '-')}" for name in names]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of an import; None: the default of the format."""

    unknown: Unknown | None = None
    """State at times that the source does not know; hold unless given."""
    online: OnlineRule | None = None
    """Phones of an event log that are online; locked ones unless given."""
    utc_offset_h: float | None = None
    """Hours by which the users' clock is ahead of that of the source; that in the source unless
    given."""
    whole_days: bool = False


AS_IS = ImportOptions()


def write_imported(
    records: UsageRecords, dest: Path, options: ImportOptions, *, rules: str = ""
) -> tuple[str, ...]:
    """Write imported records into a new folder, with a README that has the notes and rules.

    Return notes on what was joined or left out, a line each.
    """
    trace = local_days(records, utc_offset_h=options.utc_offset_h, whole_days=options.whole_days)
    notes = records.notes
    if dropped := records.trace.num_users - trace.num_users:
        notes += (f"left out: {dropped} with less than a whole day",)
    with new_folder(dest) as folder:
        write_trace(trace, folder, notes=notes, rules=rules)
    return notes


def read_source(format_: str, source: Path, options: ImportOptions) -> UsageRecords:
    """Read a published trace."""
    unknown = options.unknown or "hold"
    if format_ == "flash":
        return read_flash(source, unknown, options.online or "locked")
    if format_ == "flash-ready":
        return read_flash_ready(source)
    if format_ == "fedscale":
        return read_fedscale(source)
    if format_ == "extrasensory" and _is_published(source):
        return read_features_labels(source, unknown)
    main = main_file(source)
    form: CsvForm = form_of(main)
    if form != format_:
        raise DataError(f"{source}: is of the form {form}, not {format_}; import it as {form}")
    return read_records(main, form, unknown)


def _is_published(source: Path) -> bool:
    """Return True for files of ExtraSensory as published, or a folder of them."""
    if paths.is_folder(source):
        return bool(people_in(source))
    return source.name.endswith(SUFFIXES)
