"""Usage traces, bundled and published, beside counts of their files and by another program."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fleetsim import bundled
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.network.published_forms import read_irish_5g, read_norway_3g
from fleetsim.fleet.traces.periodic import Schedule
from fleetsim.fleet.traces.usage.files import read_intervals, read_trace
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import Usage, build_usage
from fleetsim.host import paths
from fleetsim.report.figures import style
from fleetsim.units import BIT_PER_MBIT, MS_PER_S, S_PER_HOUR
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, table

_FLAGS = ("online", "charging", "unmetered", "eligible")
_HOURS_A_WEEK = 7 * 24
_HOUR_S = int(S_PER_HOUR)
_WEEK_S = _HOURS_A_WEEK * _HOUR_S
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


def section() -> Section:
    """Return the section: traces that fleetsim carries."""
    checks, by_hour = [], {}
    for name in ("people-week", "livelab-phones"):
        states = _states_of(bundled.folder("traces") / name / "states.csv.gz")
        trace = read_trace(bundled.folder("traces") / name)
        simulated, counted = _simulated_by_hour(trace), _counted_by_hour(states)
        by_hour[name] = (simulated, counted)
        apart = max(float(np.abs(simulated[flag] - counted[flag]).max()) for flag in _FLAGS)
        simulated_s, counted_s = _simulated_intervals_s(trace), _counted_intervals_s(states)
        checks += [
            Check(f"{name}: {what}", "count", expected, model, unit, "states.csv.gz, row by row")
            for what, expected, model, unit in (
                *(
                    (f"share of the time {flag}", counted[flag].mean(), simulated[flag].mean(), "")
                    for flag in _FLAGS
                ),
                ("largest difference in any hour of the day", 0.0, apart, ""),
                *(
                    (
                        f"eligible intervals, {q:g} quantile",
                        np.quantile(counted_s, q),
                        np.quantile(simulated_s, q),
                        "s",
                    )
                    for q in (0.1, 0.5, 0.9)
                ),
                ("mean load", _counted_load(states), _simulated_load(trace), ""),
            )
        ]
    simulated = by_hour["people-week"][0]
    hours = [
        (f"{hour:02d}", *(f"{simulated[flag][hour]:.3f}" for flag in _FLAGS)) for hour in range(24)
    ]
    text = f"""\
`people-week` and `livelab-phones` are generated ([people-week](../traces/people-week/README.md),
[livelab-phones](../traces/livelab-phones/README.md)): **whether people behave like this is not
validated anywhere**. Only the reading of their files can be checked: shares of the time, by the
queries of scenarios, beside a plain walk through the rows.

{Check.table(checks)}

![Share of the people of people-week by hour of the day](validation/people-week.svg)

Share of the people of `people-week` by hour of the day, mean of the week; eligible: online,
charging and unmetered.

{table(("hour", *_FLAGS), hours)}
"""
    return Section(
        "Bundled traces",
        text,
        (SummaryLine.of("Bundled traces: shares, hours, intervals", checks),),
        {"people-week": _figure(*by_hour["people-week"])},
    )


def usage_of(trace: Trace) -> Usage:
    """Return usage with one client for every user, from the beginning of its record."""
    has_people = np.ones(trace.num_users, dtype=np.bool_)
    return build_usage(trace, seed=0, has_people=has_people, shift="none")


def _schedules(usage: Usage) -> dict[str, Schedule]:
    return {
        "online": usage.eligible_schedule(charging_required=False, unmetered_required=False),
        "charging": usage.charging_schedule(),
        "unmetered": usage.eligible_schedule(charging_required=False, unmetered_required=True),
        "eligible": usage.eligible_schedule(charging_required=True, unmetered_required=True),
    }


def _simulated_by_hour(trace: Trace) -> dict[str, FloatArray]:
    """Return shares [24] of people by flag, with the queries of a scenario."""
    people, schedules = np.arange(trace.num_users), _schedules(usage_of(trace))
    begin_s = np.arange(_HOURS_A_WEEK) * S_PER_HOUR
    shares = {}
    for flag in _FLAGS:
        seconds_true = schedules[flag].seconds_true
        hours_s = [seconds_true(people, at_s, at_s + S_PER_HOUR).mean() for at_s in begin_s]
        shares[flag] = np.reshape(hours_s, (7, 24)).mean(axis=0) / S_PER_HOUR
    return shares


def _simulated_intervals_s(trace: Trace) -> FloatArray:
    """Return lengths of the eligible intervals that begin within a week."""
    schedule, lengths = _schedules(usage_of(trace))["eligible"], []
    for person in range(trace.num_users):
        at_s = schedule.next_change_after_one(person, 0.0)
        while at_s <= _HOURS_A_WEEK * S_PER_HOUR:
            until_s = schedule.next_change_after_one(person, at_s)
            if schedule.is_at_one(person, at_s):
                lengths.append(until_s - at_s)
            at_s = until_s
    return np.array(lengths)


def _simulated_load(trace: Trace) -> float:
    """Return the mean load over people and a week, by walking through `load_after`."""
    usage, people = usage_of(trace), np.arange(trace.num_users)
    now_s, total_s = np.zeros(people.size), np.zeros(people.size)
    end_s = _HOURS_A_WEEK * S_PER_HOUR
    while (now_s < end_s).any():
        load, until_s = usage.load_after(people, now_s)
        until_s = np.minimum(until_s, end_s)
        total_s += load * np.maximum(until_s - now_s, 0.0)
        now_s = np.maximum(until_s, now_s)
    return float(total_s.mean()) / end_s


def _states_of(path: Path) -> pd.DataFrame:
    """Return the rows of a week's states, each with the second at which it ends."""
    states = pd.read_csv(path, keep_default_na=False, dtype={"user": str})
    next_s = states.groupby("user", sort=False)["t_s"].shift(-1, fill_value=_WEEK_S)
    online = states["online"] == 1
    # a client that is offline is on no network, metered or not
    unmetered, charging = online & (states["unmetered"] == 1), states["charging"] == 1
    flags = {"online": online, "charging": charging, "unmetered": unmetered}
    return states.assign(end_s=next_s, **flags, eligible=charging & unmetered)


def _counted_by_hour(states: pd.DataFrame) -> dict[str, FloatArray]:
    """Return the same as `_simulated_by_hour`, from the rows."""
    begin_s, end_s = (states[key].to_numpy()[:, np.newaxis] for key in ("t_s", "end_s"))
    hour_s = np.arange(_HOURS_A_WEEK) * _HOUR_S
    inside_s = np.clip(np.minimum(end_s, hour_s + _HOUR_S) - np.maximum(begin_s, hour_s), 0, None)
    most_s = 7 * S_PER_HOUR * states["user"].nunique()
    return {
        flag: inside_s[states[flag].to_numpy()].sum(axis=0).reshape(7, 24).sum(axis=0) / most_s
        for flag in _FLAGS
    }


def _counted_intervals_s(states: pd.DataFrame) -> FloatArray:
    """Return the same as `_simulated_intervals_s`; a run over Sunday midnight is one interval."""
    lengths = []
    for _, of_user in states[states["eligible"]].groupby("user", sort=False):
        run = (of_user["t_s"] != of_user["end_s"].shift()).cumsum()
        begin_s, end_s = of_user["t_s"].groupby(run).min(), of_user["end_s"].groupby(run).max()
        run_s = (end_s - begin_s).tolist()
        if len(run_s) > 1 and begin_s.iloc[0] == 0 and end_s.iloc[-1] == _WEEK_S:
            run_s[-1] += run_s.pop(0)
        lengths += run_s
    return np.array(lengths, dtype=np.float64)


def _counted_load(states: pd.DataFrame) -> float:
    total_s = (states["load"] * (states["end_s"] - states["t_s"])).sum()
    return float(total_s) / (states["user"].nunique() * _WEEK_S)


@style.house_style()
def _figure(simulated: dict[str, FloatArray], counted: dict[str, FloatArray]) -> Figure:
    figure = style.new_figure(7.4, 3.8)
    axes = figure.subplots()
    for flag, color in zip(_FLAGS, style.fill_colors(len(_FLAGS)), strict=True):
        hours = np.arange(24) + 0.5
        axes.plot(hours, simulated[flag], color=color, label=flag)
        axes.plot(hours, counted[flag], "o", color=color, markersize=3.5)
    axes.plot([], [], "o", color=style.BLACK, markersize=3.5, label="counted in the file")
    axes.set(xlabel="hour of the day", ylabel="share of the people", xlim=(0, 24), ylim=(0, 1.03))
    axes.set_xticks(range(0, 25, 4))
    style.in_percent(axes, "y")
    style.legend_below(figure, axes)
    return figure


def find(name: str) -> Path | None:
    """Return the folder of a published trace below `$FLEETSIM_DATA`; None if it is not there."""
    home = os.environ.get("FLEETSIM_DATA")
    if not home:
        return None
    homes = (Path(home) / "traces" / name, Path(home) / name)
    return next(filter(paths.is_folder, homes), None)


def published_section() -> Section:
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
