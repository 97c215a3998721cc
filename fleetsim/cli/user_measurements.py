"""The verbs `trace import` and `device calibrate`: measurements become traces and devices."""

import shlex
from pathlib import Path
from typing import Literal

from fleetsim.cli.terminal import note, output
from fleetsim.errors import ScenarioError
from fleetsim.host import paths


def import_(
    format_: str,
    source: Path,
    dest: Path,
    *,
    unknown: Literal["hold", "offline"] | None = None,
    online: Literal["locked", "always"] | None = None,
    utc_offset_h: float | None = None,
    whole_days: bool = False,
    app_name: str | None = None,
    time: str | None = None,
    rate: str | None = None,
    up_rate: str | None = None,
    who: list[str] | None = None,
    state: list[str] | None = None,
    until: str | None = None,
    by_second: bool = False,
    split_gap_s: float | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    missing: list[str] | None = None,
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
    dest: Path,
    *,
    runs: Path,
    like: str,
    power: Path | None = None,
    idle: list[str] | None = None,
    train: list[str] | None = None,
    title: str | None = None,
    time: str | None = None,
    power_column: str | None = None,
    current: str | None = None,
    voltage: str | None = None,
    rail: list[str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    missing: list[str] | None = None,
) -> None:
    """Fit a device file to training runs that you timed, and to a power log.

    Without --power the watts are those of the device that the file extends.
    """
    from fleetsim.calibration.device_calibration import PowerRequest
    from fleetsim.calibration.device_calibration import calibrate as write
    from fleetsim.calibration.power_log import PowerColumns
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
    devices = shlex.quote(f"fleet.devices={{{path}: 1}}")
    note(f"use it with: fleetsim run quickstart --set {devices}")


def _window(option: str, text: str) -> tuple[float, float]:
    begin, _, end = text.partition(":")
    try:
        return float(begin), float(end)
    except ValueError:
        raise ScenarioError(
            f"device calibrate: {option} {text}: must be FROM:TO in seconds, such as 5:65"
        ) from None
