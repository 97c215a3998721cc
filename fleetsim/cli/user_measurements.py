"""The verbs `trace import` and `device calibrate`: measurements become traces and devices."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fleetsim.cli.terminal import note, output
from fleetsim.host import paths


def _column(words: str) -> Any:
    return typer.Option(metavar="COLUMN[UNIT]", help=words)


_Separator = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="Table: character between fields, such as ';', or tab; seen in the file unless given.",
    ),
]
_Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="Table: sign before a number's fraction, '.' or ','; seen in the file unless given.",
    ),
]
_Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORD",
        help="Table: word for a value that was not measured, as an empty field is; may be given"
        " several times.",
    ),
]


def import_(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="table: any CSV of yours, with --time and --rate, --state or --until."
            " Usage: states, intervals, flhetbench, extrasensory, flash, flash-ready or fedscale."
            " Network: irish-5g, norway-3g, lumos5g or rates.",
        ),
    ],
    source: Annotated[Path, typer.Argument(help="Folder or file of the source.")],
    dest: Annotated[Path, typer.Argument(help="New folder for the trace.")],
    unknown: Annotated[
        Literal["hold", "offline"] | None,
        typer.Option(help="Times without data in the source; hold unless given."),
    ] = None,
    online: Annotated[
        Literal["locked", "always"] | None,
        typer.Option(help="flash: phones that count as online; locked unless given."),
    ] = None,
    utc_offset_h: Annotated[
        float | None, typer.Option(help="Hours by which the users' clock is ahead of the source's.")
    ] = None,
    whole_days: Annotated[
        bool, typer.Option("--whole-days", help="Cut records down to their whole days.")
    ] = False,
    app_name: Annotated[
        str | None,
        typer.Option(
            "--app", help="irish-5g: application whose logs to take; Download unless given."
        ),
    ] = None,
    time: Annotated[
        str | None,
        _column(
            "table: time of a row, in s unless a unit is given (ns us ms s min h d), as ISO"
            " 8601, or by the form of a date, \\[%d.%m.%Y %H:%M:%S]."
        ),
    ] = None,
    rate: Annotated[
        str | None,
        _column(
            "table: rate to the client, such as 'DL_bitrate\\[kbit/s]'; units bit/s kbit/s"
            " Mbit/s Gbit/s byte/s kB/s MB/s and their spellings (bps, Mbps, KiB/s ...)."
        ),
    ] = None,
    up_rate: Annotated[str | None, _column("table: rate from the client, as --rate.")] = None,
    who: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="table: whose record a row is; may be given several times. Without it all rows are"
            " one record.",
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE=COLUMN",
            help="table: column of online, charging, unmetered, load (load=cpu\\[%]) or ram_byte"
            " (ram_byte=used\\[MiB]); STATE=COLUMN=WORD,WORD names the words that mean it. May be"
            " given several times.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        _column("table: end of an interval that begins at --time, in which a user is available."),
    ] = None,
    by_second: Annotated[
        bool,
        typer.Option(
            "--by-second", help="table: join the rates of every whole second to their mean."
        ),
    ] = False,
    split_gap_s: Annotated[
        float | None, typer.Option(help="table: a longer pause between two rates ends a record.")
    ] = None,
    separator: _Separator = None,
    decimal: _Decimal = None,
    missing: _Missing = None,
) -> None:
    """Convert a trace of usage or of a network into fleetsim's own form.

    What was joined or left out is counted, here and in the README.md of DEST.
    """
    from fleetsim.fleet.traces.formats import ImportOptions, import_any

    options = ImportOptions(
        unknown=unknown,
        online=online,
        utc_offset_h=utc_offset_h,
        whole_days=whole_days,
        time=time,
        rate=rate,
        up_rate=up_rate,
        until=until,
        who=tuple(who or ()),
        state=tuple(state or ()),
        by_second=by_second,
        split_gap_s=split_gap_s,
        separator=separator,
        decimal=decimal,
        missing=tuple(missing or ()),
        app=app_name,
    )
    source, dest = paths.local(source), paths.local(dest)
    lines = import_any(format_, source, dest, options)
    output("\n".join([*lines, str(dest)]))


def calibrate(
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="New device file, .yaml.")],
    runs: Annotated[
        Path,
        typer.Option(
            metavar="CSV",
            help="Timed training runs: columns seconds, samples, batch_size, epochs (or 1), and"
            " model, input, classes (or FLOP by class, layers, parameters).",
        ),
    ],
    like: Annotated[
        str,
        typer.Option(
            metavar="DEVICE", help="Nearest bundled device or file, which gives all other figures."
        ),
    ],
    power: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG",
            help="Power log: CSV of a monitor (Monsoon, INA), or Perfetto power rails (CSV export"
            " or recorded trace).",
        ),
    ] = None,
    idle: Annotated[
        list[str] | None,
        typer.Option(metavar="FROM:TO", help="Seconds of the log in which the device was idle."),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(metavar="FROM:TO", help="Seconds of the log in which it trained."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the device.")] = None,
    time: Annotated[str | None, _column("Log: column of the time (s ms us ns).")] = None,
    power_column: Annotated[str | None, _column("Log: column of the power (kW W mW uW).")] = None,
    current: Annotated[str | None, _column("Log: column of the current (A mA uA).")] = None,
    voltage: Annotated[
        str | None, _column("Log: column of the voltage, or one for all, such as 3.85.")
    ] = None,
    rail: Annotated[
        list[str] | None,
        typer.Option(help="Power rail to add up; may be given several times. All unless given."),
    ] = None,
    separator: _Separator = None,
    decimal: _Decimal = None,
    missing: _Missing = None,
) -> None:
    """Fit a device file to training runs that you timed, and to a power log.

    Without --power the watts are those of the device that the file extends.
    """
    from fleetsim.calibration.device_calibration import PowerRequest
    from fleetsim.calibration.device_calibration import calibrate as write
    from fleetsim.calibration.power_log import PowerColumns
    from fleetsim.errors import ScenarioError
    from fleetsim.fleet.traces.table_rows import layout_of

    log_options = (idle, train, time, power_column, current, voltage, rail)
    if power is None and any(log_options):
        raise ScenarioError(
            "device calibrate: --idle, --train and the columns of a log need --power LOG; give it"
        )
    dest, runs, request = paths.local(dest), paths.local(runs), None
    if power is not None:
        power = paths.local(power)
        request = PowerRequest(
            log=power,
            idle=[_window("--idle", text) for text in idle or ()],
            train=[_window("--train", text) for text in train or ()],
            columns=PowerColumns(time, power_column, current, voltage),
            rails=tuple(rail or ()),
        )
    layout = layout_of(
        "device calibrate", separator=separator, decimal=decimal, missing=missing or ()
    )
    lines = write(dest, like=like, title=title, runs=runs, power=request, layout=layout)
    output("\n".join([*lines, str(dest)]))
    path = str(dest) if dest.is_absolute() else f"./{dest}"
    note(
        f"use it with: fleetsim run quickstart --set {shlex.quote(f'fleet.devices={{{path}: 1}}')}"
    )


def _window(option: str, text: str) -> tuple[float, float]:
    from fleetsim.errors import ScenarioError

    begin, _, end = text.partition(":")
    try:
        return float(begin), float(end)
    except ValueError:
        raise ScenarioError(
            f"device calibrate: {option} {text}: must be FROM:TO in seconds, such as 5:65"
        ) from None
