"""Import of published traces, of usage or of a network, by their format."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.network.files import NetFormat, import_net_trace, is_net_format
from fleetsim.fleet.traces.table_import import NO_COLUMNS, TABLE, TableOptions, import_table
from fleetsim.fleet.traces.usage.importing import AS_IS, ImportOptions, TraceFormat, import_trace
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import nearest


def import_any(
    format_: str,
    source: Path,
    dest: Path,
    options: ImportOptions = AS_IS,
    *,
    app: str | None = None,
    columns: TableOptions = NO_COLUMNS,
) -> tuple[str, ...]:
    """Convert a trace into fleetsim's own form, in a new folder.

    Args:
        format_: form of the source, of either kind.
        source: its folder or main file.
        dest: new folder, which appears whole or not at all.
        options: options of a usage trace.
        app: application whose logs to take (irish-5g only); None: Download.
        columns: columns of a table (table only).

    Returns:
        Notes on what was left out, a line each.

    Raises:
        ScenarioError: there is no such format, or it has no such option.
        DataError: the source is wrong or of another form, or `dest` exists or cannot be made.
    """
    if format_ == TABLE:
        if app is not None or options.online is not None:
            named = "--app" if app is not None else "--online"
            raise ScenarioError(f"trace import: {named} means nothing to {TABLE}; drop it")
        return import_table(source, dest, columns, options)
    if columns != NO_COLUMNS:
        raise ScenarioError(
            f"trace import: {columns.first_option} is for the form {TABLE} alone, not"
            f" for {format_}; drop it, or write: fleetsim trace import {TABLE}"
        )
    if is_net_format(format_):
        if options != AS_IS:
            raise ScenarioError(
                "trace import: --unknown, --online, --utc-offset-h and --whole-days belong to"
                f" traces of usage, not to {format_}; drop them"
            )
        return import_net_trace(format_, source, dest, app=app)
    if format_ not in get_args(TraceFormat):
        known = (TABLE, *get_args(TraceFormat), *get_args(NetFormat))
        close = nearest(format_, known)
        hint = f"; did you mean {quoted(close)}?" if close else ""
        raise ScenarioError(
            f"trace import: format {quoted(format_)} is not known;"
            f" must be one of {', '.join(known)}{hint}"
        )
    if app is not None:
        raise ScenarioError(f"trace import: --app belongs to irish-5g, not to {format_}; drop it")
    return import_trace(format_, source, dest, options)
