"""Import of any CSV table, of measured rates or of usage, by the columns that its owner names.

Samples that repeat, overlap or are out of order are joined by stated rules (`network.table`,
`usage.table`) and counted; the counts and the rules are in the README of the new folder.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.column_choice import column_choice
from fleetsim.fleet.traces.network import files as network_files
from fleetsim.fleet.traces.network import table as rate_table
from fleetsim.fleet.traces.network.table import RateColumns, read_rate_table
from fleetsim.fleet.traces.table_rows import layout_of
from fleetsim.fleet.traces.usage import table as usage_table
from fleetsim.fleet.traces.usage.importing import (
    AS_IS,
    ImportOptions,
    given_options,
    write_imported,
)
from fleetsim.fleet.traces.usage.state_columns import state_column
from fleetsim.fleet.traces.usage.table import read_usage_table

TABLE: Final = "table"
_OF_NETWORKS: Final = ("--up-rate", "--by-second", "--split-gap-s")


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


NO_COLUMNS: Final = TableOptions()


def import_table(
    source: Path, dest: Path, options: TableOptions, usage: ImportOptions = AS_IS
) -> tuple[str, ...]:
    """Convert a table into fleetsim's own form: of a network with --rate, else of usage.

    Return notes on what was joined and left out, a line each.
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
    network_files.write_imported(read.trace, dest, TABLE, read.notes, rules)
    return read.notes


def _rules(docstring: str | None) -> str:
    """Return the rules of a module, which its docstring states after its first line."""
    assert docstring is not None
    return docstring.partition("\n\n")[2].strip()
