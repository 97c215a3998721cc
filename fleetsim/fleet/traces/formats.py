"""Import of traces, of usage or of a network: the readers of all forms, and their options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.column_choice import column_choice
from fleetsim.fleet.traces.folder import check_new
from fleetsim.fleet.traces.network import table as rate_table
from fleetsim.fleet.traces.network.files import NetFormat, import_net_trace
from fleetsim.fleet.traces.network.files import write_imported as write_net_imported
from fleetsim.fleet.traces.network.table import RateColumns, read_rate_table
from fleetsim.fleet.traces.table_rows import layout_of
from fleetsim.fleet.traces.usage import table as usage_table
from fleetsim.fleet.traces.usage.importing import (
    AS_IS,
    ImportOptions,
    TraceFormat,
    given_options,
    read_source,
    write_imported,
)
from fleetsim.fleet.traces.usage.records import MOST_UTC_OFFSET_H
from fleetsim.fleet.traces.usage.state_columns import state_column
from fleetsim.fleet.traces.usage.table import read_usage_table
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

TABLE: Final = "table"
_OF_NETWORKS: Final = ("--up-rate", "--by-second", "--split-gap-s")
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


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of a table and its columns, as text; None or empty: not given."""

    time: str | None = None
    rate: str | None = None
    up_rate: str | None = None
    until: str | None = None
    who: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    by_second: bool = False
    split_gap_s: float | None = None
    separator: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] = ()


def import_any(
    format_: str,
    source: Path,
    dest: Path,
    options: ImportOptions = AS_IS,
    *,
    app: str | None = None,
    columns: TableOptions = TableOptions(),
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
        return _import_table(source, dest, columns, options)
    if format_ in _USAGE:
        return write_imported(read_source(format_, source, options), dest, options)
    return import_net_trace(format_, source, dest, app=app)


def _import_table(
    source: Path, dest: Path, options: TableOptions, usage: ImportOptions
) -> tuple[str, ...]:
    """Convert a table into fleetsim's own form: of a network with --rate, else of usage.

    Samples that repeat, overlap or are out of order are joined by stated rules (`network.table`,
    `usage.table`) and counted; the counts and the rules are in the README of the new folder.
    """
    if options.time is None:
        raise ScenarioError(
            "trace import table: --time is missing; name the column of the time, such as --time t,"
            " --time 't[ms]' or --time 'date[%d.%m.%Y %H:%M:%S]'"
        )
    time = column_choice("--time", options.time)
    who = tuple(column_choice("--who", text) for text in options.who)
    layout = layout_of(
        "trace import table",
        separator=options.separator,
        decimal=options.decimal,
        missing=options.missing,
    )
    if options.rate is None:
        for option in given_options(options):
            if option in _OF_NETWORKS:
                raise ScenarioError(
                    f"trace import table: {option} belongs to a network, which has --rate; give"
                    " --rate too, or drop it"
                )
        states = dict(map(state_column, options.state))
        if len(states) < len(options.state):
            raise ScenarioError("trace import table: --state names a state twice; drop one")
        until = None if options.until is None else column_choice("--until", options.until)
        if until is not None and usage.unknown is not None:
            raise ScenarioError(
                "trace import table: --unknown means nothing to intervals, between which users are"
                " not available; drop it"
            )
        records = read_usage_table(
            source,
            time=time,
            until=until,
            who=who,
            states=states,
            layout=layout,
            unknown=usage.unknown or "hold",
            utc_offset_h=usage.utc_offset_h,
        )
        return write_imported(records, dest, usage, rules=_rules(usage_table.__doc__))
    if options.until is not None or options.state or usage != AS_IS:
        raise ScenarioError(
            "trace import table: --rate means a network, and --until, --state, --unknown,"
            " --utc-offset-h and --whole-days belong to usage; drop one or the other"
        )
    if options.split_gap_s is not None and not options.split_gap_s > 0.0:
        raise ScenarioError(
            f"trace import table: --split-gap-s {options.split_gap_s:g}: must be above 0 s"
        )
    read = read_rate_table(
        source,
        RateColumns(
            time=time,
            down=column_choice("--rate", options.rate),
            up=None if options.up_rate is None else column_choice("--up-rate", options.up_rate),
            who=who,
            by_second=options.by_second,
            split_gap_s=options.split_gap_s,
            layout=layout,
        ),
    )
    rules = _rules(rate_table.__doc__)
    write_net_imported(read.trace, dest, TABLE, read.notes, rules)
    return read.notes


def _rules(docstring: str | None) -> str:
    """Return the rules of a module, which its docstring states after its first line."""
    assert docstring is not None
    return docstring.partition("\n\n")[2].strip()
