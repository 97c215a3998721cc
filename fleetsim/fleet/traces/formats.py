"""Import of traces, of usage or of a network: the readers of all forms, and their options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.folder import check_new
from fleetsim.fleet.traces.network.files import NetFormat, import_net_trace
from fleetsim.fleet.traces.table_import import NO_COLUMNS, TABLE, TableOptions, import_table
from fleetsim.fleet.traces.usage.importing import (
    AS_IS,
    ImportOptions,
    TraceFormat,
    given_options,
    read_source,
    write_imported,
)
from fleetsim.fleet.traces.usage.records import MOST_UTC_OFFSET_H
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

_USAGE: Final = get_args(TraceFormat)
_KNOWN: Final = (TABLE, *_USAGE, *get_args(NetFormat))
_FORMATS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "--unknown": ("extrasensory", "flash", TABLE),
    "--online": ("flash",),
    "--utc-offset-h": (TABLE, *_USAGE),
    "--whole-days": (TABLE, *_USAGE),
    "--app": ("irish-5g",),
}
"""Formats to which each option means something; those of columns are for tables."""


def import_any(
    format_: str,
    source: Path,
    dest: Path,
    options: ImportOptions = AS_IS,
    *,
    app: str | None = None,
    columns: TableOptions = NO_COLUMNS,
) -> tuple[str, ...]:
    """Convert a trace into fleetsim's own form, in a new folder; return notes, a line each.

    `options` are of a usage trace, `app` of irish-5g (None: Download), and `columns` of a table.
    """
    if format_ not in _KNOWN:
        raise ScenarioError(
            f"trace import: format {quoted(format_)} is not known;"
            f" must be one of {', '.join(_KNOWN)}{did_you_mean(format_, _KNOWN)}"
        )
    given = given_options(options) + given_options(columns) + ["--app"] * (app is not None)
    for option in given:
        formats = _FORMATS_OF.get(option, (TABLE,))
        if format_ not in formats:
            raise ScenarioError(
                f"trace import: {option} means nothing to {format_}; drop it, or import as"
                f" {' or '.join(formats)}"
            )
    offset_h = options.utc_offset_h
    if offset_h is not None and not abs(offset_h) <= MOST_UTC_OFFSET_H:
        raise ScenarioError(
            f"trace import: --utc-offset-h {offset_h:g} is beyond {MOST_UTC_OFFSET_H:g} h from UTC"
        )
    check_new(dest)
    if format_ == TABLE:
        return import_table(source, dest, columns, options)
    if format_ in _USAGE:
        return write_imported(read_source(format_, source, options), dest, options)
    return import_net_trace(format_, source, dest, app=app)
