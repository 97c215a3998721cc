"""Device file from timed training runs and a power log, with its residuals.

The file extends the profile of the nearest bundled device and replaces its measured values: the
rate of convolutions and the overheads by `timed_runs`, idle and training power by the means of a
power log over two windows. All else, phi too, is that of the extended device.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsim import bundled
from fleetsim.calibration.power_log import MeanPower, PowerColumns, PowerLog, Window, read_power_csv
from fleetsim.calibration.power_rails import TRACE_SUFFIXES, is_rails, read_rails
from fleetsim.calibration.timed_runs import TimedRun, TimeFit, fit_times, read_timed_runs
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.devices.hardware_files import KEY, HardwareFiles, read_device
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.devices.profile_files import DeviceFile
from fleetsim.fleet.traces.csv_table import read_csv_header
from fleetsim.fleet.traces.folder import check_new
from fleetsim.fleet.traces.table_rows import SEEN, Layout
from fleetsim.quoting import quoted
from fleetsim.record import atomic_files
from fleetsim.schema import strict_yaml
from fleetsim.schema.faults import check
from fleetsim.schema.yaml_text import dump
from fleetsim.units import FLOP_PER_GFLOP

_LEAST_PARAMETER_S = 1e-9
"""Least overhead per million parameters that a device file may state."""
_FAR = 10.0
"""Ratio to the extended device, or of it, from which a value counts as far."""
_HINT = "name another DEST"


@dataclass(frozen=True, slots=True)
class PowerRequest:
    """A power log and its windows."""

    log: Path
    idle: Sequence[Window]
    train: Sequence[Window]
    columns: PowerColumns
    rails: Sequence[str] = ()


def calibrate(
    dest: Path,
    *,
    like: str,
    title: str | None,
    runs: Path,
    power: PowerRequest | None,
    layout: Layout = SEEN,
) -> tuple[str, ...]:
    """Write a device file `dest`, and return lines on what was fitted and how well.

    `like` is the bundled name or path of the device file that it extends, whose power and title
    stay without a `power` log and a `title`; `runs` are timed training runs, and `layout` is that
    of the tables.
    """
    if dest.suffix not in (".yaml", ".yml"):
        raise ScenarioError(f"device calibrate: {dest}: a device file ends in .yaml; rename it")
    check_new(dest)
    path = _extended(like)
    base = load_device(like)
    timed, seen = read_timed_runs(runs, layout)
    fit = fit_times(timed, base.compute)
    extends = like if like in bundled.names("devices") else str(path.resolve())
    data: dict[str, Any] = {
        KEY: extends,
        "title": title or f"{base.title}, calibrated",
        "compute": _compute(fit, timed, runs, base.name, has_layer=base.compute.layer_s > 0.0),
    }
    lines = [*seen, *_time_lines(fit, timed)]
    far = [("R", fit.conv_flop_per_s, base.compute.conv_flop_per_s)]
    if fit.overhead_factor is not None:
        far.append(("overheads", fit.overhead_factor, 1.0))
    if power is not None:
        log = _log(power, layout)
        idle, train = log.mean_w(power.idle), log.mean_w(power.train)
        if not train.mean_w > idle.mean_w:
            raise DataError(
                f"{log.name}: training draws {train.mean_w:g} W, not more than idle at"
                f" {idle.mean_w:g} W; check the windows"
            )
        data["power"] = _power(idle, train, power.log)
        lines += [*log.notes, *_power_lines(idle, train)]
        far.append(("idle power", idle.mean_w, base.power.idle_awake_w))
        above_w = train.mean_w - idle.mean_w
        far.append(("power above idle", above_w, base.power.train_above_idle_w))
    lines += _far_lines(like, far)
    data["notes"] = " ".join(f"{line}." for line in lines)
    text = (
        f"# Written by `fleetsim device calibrate`: figures measured on this device, all others of"
        f" {like}.\n# `notes` has the residuals. How to read this file: `fleetsim docs devices`.\n"
    ) + dump(data)
    _require_valid(text, dest)
    atomic_files.make_folder(dest.parent, hint=_HINT)
    atomic_files.write(dest, text.encode(), hint=_HINT)
    return tuple(lines)


def _extended(like: str) -> Path:
    """Return the path of a device file that may be extended."""
    path = bundled.find("devices", like)
    if path is None:
        raise ScenarioError(
            f"device calibrate: --like {quoted(like)}: {bundled.not_found('devices', like)}"
        )
    document = strict_yaml.read(path, DataError)
    if KEY in document.data:
        raise ScenarioError(
            f"device calibrate: --like {quoted(like)} extends {quoted(document.data[KEY])} itself,"
            " and an extended file must not; give that one"
        )
    if HardwareFiles().device(like)[1].reproduction is not None:
        raise ScenarioError(
            f"device calibrate: --like {quoted(like)} reproduces a paper's figures and is no"
            " physical device; give another"
        )
    return path


def _log(power: PowerRequest, layout: Layout) -> PowerLog:
    if not power.idle or not power.train:
        raise ScenarioError(
            "device calibrate: --power needs --idle FROM:TO and --train FROM:TO, in seconds after"
            " the first row of the log"
        )
    is_trace = power.log.suffix in TRACE_SUFFIXES
    if is_trace or is_rails(read_csv_header(power.log, layout)):
        return read_rails(power.log, power.rails, layout)
    if power.rails:
        raise ScenarioError(
            f"device calibrate: --rail names power rails, and {power.log} has none; drop it"
        )
    return read_power_csv(power.log, power.columns, layout)


def _require_valid(text: str, dest: Path) -> None:
    """Check the file before it is written, as its loader will."""
    parsed = strict_yaml.parse(text, str(dest), DataError, dest.parent)

    def read(path: Path) -> strict_yaml.Document:
        return parsed if path == dest else strict_yaml.read(path, DataError)

    check(DeviceFile, read_device(dest, read), DataError)


def _compute(
    fit: TimeFit, runs: Sequence[TimedRun], path: Path, base: str, *, has_layer: bool
) -> dict[str, Any]:
    what = f"{len(runs)} timed training runs ({path.name})"
    how = "exact" if fit.is_exact else f"largest error {_worst(fit, runs):.1%}"
    source = f"least squares over {what}, {how}; phi of {base}"

    def overhead(value: float) -> dict[str, Any]:
        if fit.overhead_factor is None:
            return {"value": value, "source": source}
        scaled = f"that of {base} times {fit.overhead_factor:.4g}, a factor fitted to {what}"
        return {"value": value, "source": scaled, "inferred": True}

    rate = fit.conv_flop_per_s / FLOP_PER_GFLOP
    result: dict[str, Any] = {
        "conv_gflop_per_s": {"value": float(rate), "source": source},
        "dispatch_s": overhead(float(fit.dispatch_s)),
    }
    if has_layer or fit.overhead_factor is None:
        result["layer_s"] = overhead(float(fit.layer_s))
    least = max(float(fit.parameter_s_per_mparam), _LEAST_PARAMETER_S)
    result["parameter_s_per_mparam"] = overhead(least)
    return result


def _power(idle: MeanPower, train: MeanPower, log: Path) -> dict[str, Any]:
    return {
        "idle_awake_w": {
            "value": idle.mean_w,
            "source": f"mean of {idle.lasts_s:g} s of {log.name}, standard error"
            f" {idle.standard_error_w:.2g} W",
        },
        "train_above_idle_w": {
            "value": train.mean_w - idle.mean_w,
            "source": f"mean of {train.lasts_s:g} s of training in {log.name},"
            f" {train.mean_w:.4g} W, less idle; standard error {_both(idle, train):.2g} W",
        },
    }


def _both(idle: MeanPower, train: MeanPower) -> float:
    return math.hypot(idle.standard_error_w, train.standard_error_w)


def _worst(fit: TimeFit, runs: Sequence[TimedRun]) -> float:
    pairs = zip(fit.modelled_s.tolist(), runs, strict=True)
    return max(float(abs(modelled / run.seconds - 1.0)) for modelled, run in pairs)


def _time_lines(fit: TimeFit, runs: Sequence[TimedRun]) -> list[str]:
    rate = fit.conv_flop_per_s / FLOP_PER_GFLOP
    lines = [
        f"R {rate:.4g} GFLOP/s; overhead of a batch {fit.dispatch_s:.3g} s, of a layer"
        f" {fit.layer_s:.3g} s, of a million parameters {fit.parameter_s_per_mparam:.3g} s"
    ]
    if fit.overhead_factor is not None:
        lines.append(
            f"overheads are those of the extended device times {fit.overhead_factor:.4g}; to fit"
            " each of them, time four runs of different models and batches"
        )
    pairs = zip(runs, fit.modelled_s.tolist(), strict=True)
    lines += [
        f"run {number}: measured {run.seconds:.4g} s, by the file {modelled:.4g} s"
        f" ({modelled / run.seconds - 1.0:+.1%})"
        for number, (run, modelled) in enumerate(pairs, start=1)
    ]
    if fit.is_exact:
        lines.append(
            f"{len(runs)} runs and {fit.num_unknowns} unknowns: the fit is exact where it can be,"
            " and residuals test nothing; time one more run"
        )
    return lines


def _power_lines(idle: MeanPower, train: MeanPower) -> list[str]:
    at_rest, at_work = (" + ".join(map(str, power.num_samples)) for power in (idle, train))
    return [
        f"idle {idle.mean_w:.4g} W +- {idle.standard_error_w:.2g} ({idle.lasts_s:g} s,"
        f" {at_rest} samples)",
        f"training {train.mean_w - idle.mean_w:.4g} W above idle +- {_both(idle, train):.2g}"
        f" ({train.lasts_s:g} s, {at_work} samples)",
        *(
            f"{name}: {power.num_zero} of {sum(power.num_samples)} samples are exactly 0 W, which"
            " no device that runs draws; leave fields empty where nothing was measured"
            for name, power in (("idle", idle), ("training", train))
            if power.num_zero
        ),
    ]


def _far_lines(like: str, values: Sequence[tuple[str, float, float]]) -> list[str]:
    """Return a line for each value that is far from that of the extended device."""
    lines = []
    for what, fitted, extended in values:
        if fitted > 0.0 and extended > 0.0 and not 1.0 / _FAR <= fitted / extended <= _FAR:
            times = fitted / extended
            message = f"{times:.3g} times" if times > 1.0 else f"1/{1.0 / times:.3g} of"
            lines.append(f"{what}: {message} that of {like}, which is far; check units and windows")
    return lines
