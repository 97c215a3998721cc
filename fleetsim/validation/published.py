"""Published traces that fleetsim may not carry, beside counts by another program."""

import os
from pathlib import Path

import numpy as np

from fleetsim.contracts import IntArray
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.network.published_forms import read_irish_5g, read_norway_3g
from fleetsim.fleet.traces.usage.files import read_intervals, read_trace
from fleetsim.host import paths
from fleetsim.units import BIT_PER_MBIT, MS_PER_S, S_PER_HOUR
from fleetsim.validation import measurements
from fleetsim.validation.people import usage_of
from fleetsim.validation.tables import Check, Section, SummaryLine

_HOUR_S = int(S_PER_HOUR)
_LOCAL_S = -7 * _HOUR_S
"""Offset to UTC of San Diego, the local time of ExtraSensory's people."""
PUBLISHED = {
    "flash-flhetbench": "FLHetBench's intervals from FLASH: Carkham/FLHetBench@633c071"
    " data/cached_timers.json",
    "extrasensory": "ExtraSensory: http://extrasensory.ucsd.edu/",
    "net-5g-irish": "Irish 5G: github.com/uccmisl/5Gdataset",
    "net-hsdpa-norway": "Norwegian 3G: http://skuld.cs.umass.edu/traces/mmsys/2013/pathbandwidth/",
}
"""Traces that fleetsim may not carry, with their sources."""


def find(name: str) -> Path | None:
    """Return the folder of a published trace below `$FLEETSIM_DATA`; None if it is not there."""
    home = os.environ.get("FLEETSIM_DATA")
    if not home:
        return None
    homes = (Path(home) / "traces" / name, Path(home) / name)
    return next(filter(paths.is_folder, homes), None)


def section() -> Section:
    """Return the section: published traces that are on this machine."""
    readers = (_flhetbench, _extrasensory, _irish, _norwegian)
    checks, missing = [], []
    for checks_of, (name, source) in zip(readers, PUBLISHED.items(), strict=True):
        folder = find(name)
        if folder is None:
            missing.append(f"- `{name}` ({source})")
        else:
            checks += checks_of(folder)
    parts = [
        "Traces that fleetsim may not carry are read from `$FLEETSIM_DATA/traces/NAME` or"
        " `$FLEETSIM_DATA/NAME`; [usage](models/usage.md) and"
        " [network traces](models/network-traces.md) describe their conversion. Counts by another"
        " program, beside the states of clients."
    ]
    if checks:
        parts.append(Check.table(checks))
    if missing:
        parts.append("**Not here, so not checked**:\n\n" + "\n".join(missing))
    message = Check.errors_text(checks) if checks else "not checked: no data"
    if checks and missing:
        message += f"; {len(missing)} of {len(PUBLISHED)} traces are not here"
    verdict = SummaryLine(
        "Published traces: shares, intervals, rates", "count", len(checks), message
    )
    return Section("Published traces", "\n\n".join(parts) + "\n", (verdict,))


def _flhetbench(folder: Path) -> list[Check]:
    trace = read_trace(folder)
    usage = usage_of(trace)
    span_s = trace.span_s[usage.user]
    eligible = usage.eligible_schedule(charging_required=True, unmetered_required=True)
    share = eligible.seconds_true(np.arange(trace.num_users), 0.0, span_s) / span_s
    # as in the file; intervals of length 0 are not in a trace
    raw = read_intervals(folder / "intervals.csv.gz").trace
    length_s = raw.lasts_s[raw.online].astype(np.float64)
    num = read_csv_table(folder / "intervals.csv.gz").num_rows
    length_s = np.concatenate([length_s, np.zeros(num - length_s.size)])
    return [
        measurements.numbers()[f"flhetbench_{key}"].check(
            f"flash-flhetbench: {title}", "count", value
        )
        for title, key, value in (
            ("mean share of the time", "mean_share", share.mean()),
            ("median share", "median_share", np.median(share)),
            ("90 % quantile of the share", "q90_share", np.quantile(share, 0.9)),
            ("median interval", "median_interval_s", np.median(length_s)),
            ("90 % quantile of the intervals", "q90_interval_s", np.quantile(length_s, 0.9)),
        )
    ]


def _extrasensory(folder: Path) -> list[Check]:
    trace = read_trace(folder)
    usage = usage_of(trace)
    samples = read_csv_table(folder / "states-dev.csv.gz")
    user, local_s = samples.whole_numbers("user"), samples.whole_numbers("t") + _LOCAL_S
    client_of = {int(trace.user_ids[user_]): client for client, user_ in enumerate(usage.user)}
    day_s = 24 * _HOUR_S
    midnight_s = {
        int(one): int(local_s[user == one][0]) // day_s * day_s for one in np.unique(user)
    }
    clients = np.array([client_of[int(one)] for one in user])
    since_s = local_s - np.array([midnight_s[int(one)] for one in user])
    charging = usage.state_at(clients, since_s.astype(np.float64)).charging
    hour = local_s // _HOUR_S % 24
    counted = np.isin(samples.columns["battery_state"], ("charging", "full"))
    return [
        Check(f"extrasensory: share on the charger at {at:02d} h", "count",
              float(counted[hour == at].mean()), float(charging[hour == at].mean()), "",
              "states-dev.csv.gz, sample by sample; ExtraSensory (Vaizman et al., IEEE Pervasive"
              " Computing 2017)")
        for at in (5, 9)
    ]  # fmt: skip


def _irish(folder: Path) -> list[Check]:
    trace = read_irish_5g(folder, app="Download")
    logs = read_csv_table(folder / "traces.csv.gz").columns
    of_app = [m for app, m in zip(logs["app"], logs["mobility"], strict=True) if app == "Download"]
    driving = np.repeat(np.array(of_app) == "driving", np.diff(trace.offsets))
    mbit_per_s = trace.down_bit_per_s / BIT_PER_MBIT
    return [
        measurements.numbers()[f"irish_{key}"].check(f"net-5g-irish: {title}", "count", value)
        for title, key, value in (
            ("length", "hours", _hours(trace.span_ms)),
            ("mean rate down, driving", "driving_mbit_per_s", mbit_per_s[driving].mean()),
            ("mean rate down, static", "static_mbit_per_s", mbit_per_s[~driving].mean()),
        )
    ]


def _norwegian(folder: Path) -> list[Check]:
    hours, trace = measurements.numbers()["norway_hours"], read_norway_3g(folder)
    return [hours.check("net-hsdpa-norway: length", "count", _hours(trace.span_ms))]


def _hours(span_ms: IntArray) -> float:
    return float(span_ms.sum()) / MS_PER_S / S_PER_HOUR
