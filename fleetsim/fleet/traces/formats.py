"""Import of traces, of usage or of a network: the readers of all forms, and their options."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Literal, get_args

from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import column_choice
from fleetsim.fleet.traces.folder import check_new, new_folder
from fleetsim.fleet.traces.network import table as rate_table
from fleetsim.fleet.traces.network.files import NetFormat, import_net_trace
from fleetsim.fleet.traces.network.files import write_imported as write_net_imported
from fleetsim.fleet.traces.table_rows import layout_of
from fleetsim.fleet.traces.usage import table as usage_table
from fleetsim.fleet.traces.usage.features_labels import SUFFIXES, people_in, read_features_labels
from fleetsim.fleet.traces.usage.fedscale import read_fedscale
from fleetsim.fleet.traces.usage.files import form_of, main_file, read_records, write_trace
from fleetsim.fleet.traces.usage.flash import OnlineRule, read_flash, read_flash_ready
from fleetsim.fleet.traces.usage.records import (
    MOST_UTC_OFFSET_H,
    Unknown,
    UsageRecords,
    local_days,
)
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

TraceFormat = Literal[
    "states", "intervals", "flhetbench", "extrasensory", "flash", "flash-ready", "fedscale"
]
TABLE: Final = "table"
_OF_USAGE: Final = frozenset(("--until", "--state", "--unknown", "--utc-offset-h", "--whole-days"))
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
class ImportOptions:
    """Options of an import, those of columns as text; None, False or empty: not given."""

    unknown: Unknown | None = None
    """State at times that the source does not know; hold unless given."""
    online: OnlineRule | None = None
    """Phones of an event log that are online; locked ones unless given."""
    utc_offset_h: float | None = None
    """Hours by which the users' clock is ahead of that of the source; that in the source unless
    given."""
    whole_days: bool = False
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
    app: str | None = None
    """Application whose logs are taken, of irish-5g; Download unless given."""

    def given(self) -> list[str]:
        """Return the options that are given, by their names on the command line.

        >>> ImportOptions(utc_offset_h=2.0, whole_days=True).given()
        ['--utc-offset-h', '--whole-days']
        """
        names = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        return [f"--{name.replace('_', '-')}" for name in names]


def import_any(
    format_: str, source: Path, dest: Path, options: ImportOptions = ImportOptions()
) -> tuple[str, ...]:
    """Convert a trace into fleetsim's own form, in a new folder; return notes, a line each."""
    if format_ not in _KNOWN:
        raise ScenarioError(
            f"trace import: format {quoted(format_)} is not known;"
            f" must be one of {', '.join(_KNOWN)}{did_you_mean(format_, _KNOWN)}"
        )
    for option in options.given():
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
        return _import_table(source, dest, options)
    if format_ in _USAGE:
        return _write_usage(_published_usage(format_, source, options), dest, options)
    return import_net_trace(format_, source, dest, app=options.app)


def _published_usage(format_: str, source: Path, options: ImportOptions) -> UsageRecords:
    unknown = options.unknown or "hold"
    if format_ == "flash":
        return read_flash(source, unknown, options.online or "locked")
    if format_ == "flash-ready":
        return read_flash_ready(source)
    if format_ == "fedscale":
        return read_fedscale(source)
    if format_ == "extrasensory" and (
        people_in(source) if paths.is_folder(source) else source.name.endswith(SUFFIXES)
    ):
        return read_features_labels(source, unknown)
    main = main_file(source)
    form = form_of(main)
    if form != format_:
        raise DataError(f"{source}: is of the form {form}, not {format_}; import it as {form}")
    return read_records(main, form, unknown)


def _write_usage(
    records: UsageRecords, dest: Path, options: ImportOptions, rules: str = ""
) -> tuple[str, ...]:
    """Write records into a new folder, with a README that has the rules and the notes returned."""
    trace = local_days(records, utc_offset_h=options.utc_offset_h, whole_days=options.whole_days)
    notes = records.notes
    if dropped := records.trace.num_users - trace.num_users:
        notes += (f"left out: {dropped} with less than a whole day",)
    with new_folder(dest) as folder:
        write_trace(trace, folder, notes=notes, rules=rules)
    return notes


def _import_table(source: Path, dest: Path, options: ImportOptions) -> tuple[str, ...]:
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
        for option in options.given():
            if option in _OF_NETWORKS:
                raise ScenarioError(
                    f"trace import table: {option} belongs to a network, which has --rate; give"
                    " --rate too, or drop it"
                )
        states = dict(map(usage_table.state_column, options.state))
        if len(states) < len(options.state):
            raise ScenarioError("trace import table: --state names a state twice; drop one")
        until = None if options.until is None else column_choice("--until", options.until)
        if until is not None and options.unknown is not None:
            raise ScenarioError(
                "trace import table: --unknown means nothing to intervals, between which users are"
                " not available; drop it"
            )
        records = usage_table.read_usage_table(
            source,
            time=time,
            until=until,
            who=who,
            states=states,
            layout=layout,
            unknown=options.unknown or "hold",
            utc_offset_h=options.utc_offset_h,
        )
        return _write_usage(records, dest, options, _rules(usage_table.__doc__))
    if not _OF_USAGE.isdisjoint(options.given()):
        raise ScenarioError(
            "trace import table: --rate means a network, and --until, --state, --unknown,"
            " --utc-offset-h and --whole-days belong to usage; drop one or the other"
        )
    if options.split_gap_s is not None and not options.split_gap_s > 0.0:
        raise ScenarioError(
            f"trace import table: --split-gap-s {options.split_gap_s:g}: must be above 0 s"
        )
    read = rate_table.read_rate_table(
        source,
        time=time,
        down=column_choice("--rate", options.rate),
        up=None if options.up_rate is None else column_choice("--up-rate", options.up_rate),
        who=who,
        by_second=options.by_second,
        split_gap_s=options.split_gap_s,
        layout=layout,
    )
    rules = _rules(rate_table.__doc__)
    return write_net_imported(read.trace, dest, TABLE, read.notes, rules)


def _rules(docstring: str | None) -> str:
    """Return the rules of a module, which its docstring states after its first line."""
    assert docstring is not None
    return docstring.partition("\n\n")[2].strip()
