"""Scripts in the folders of bundled traces, imported."""

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fleetsim import bundled
from fleetsim.fleet.traces.network.files import read_net_trace
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.trace import Trace


def script_of(trace: str, name: str = "make") -> Any:
    """Return a module of the folder, as Python finds it when it runs a script there."""
    folder = str(bundled.folder("traces") / trace)
    for module in ("make", "app_sessions"):
        sys.modules.pop(module, None)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


NAMES = ("people-week", "livelab-phones", "commute-5g")


@cache
def trace_of(name: str) -> Trace | NetTrace:
    folder = bundled.folder("traces") / name
    return read_net_trace(folder) if name == "commute-5g" else read_trace(folder)


def columns(trace: Trace | NetTrace) -> list[list[Any]]:
    if isinstance(trace, Trace):
        return [column.tolist() for column in (trace.times_s, *trace.columns)]
    assert trace.up_bit_per_s is not None
    return [trace.times_ms.tolist(), trace.down_bit_per_s.tolist(), trace.up_bit_per_s.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_script_makes_all_records_and_the_page(name):
    script = script_of(name)
    made = script.generate()
    page = (bundled.folder("traces") / name / "README.md").read_text(encoding="utf-8")

    assert columns(made) == columns(trace_of(name))
    assert script.readme(made, page) == page


def test_people_charge_at_night_and_are_on_their_phones_by_day():
    trace = trace_of("people-week")
    assert isinstance(trace, Trace)
    shares = script_of("people-week").hourly_shares(trace)

    assert trace.num_users == 300
    assert shares["charging"][3] > 3 * shares["charging"][15]
    assert shares["eligible"][3] > 3 * shares["eligible"][15]
    assert shares["unmetered"][21] > shares["unmetered"][13]


def test_every_commuter_has_outages_and_home_is_faster_than_the_ride():
    trace = trace_of("commute-5g")
    assert isinstance(trace, NetTrace)

    assert trace.num_records == 30
    assert np.array_equal(trace.up_bit_per_s == 0.0, trace.down_bit_per_s == 0.0)
    for rate in np.split(trace.down_bit_per_s, trace.offsets[1:-1]):
        assert (rate == 0.0).any()
        assert np.median(rate[:200]) > np.percentile(rate, 20)


app_sessions = script_of("livelab-phones", "app_sessions")
APPS, with_app_sessions = app_sessions.APPS, app_sessions.with_app_sessions
BACKGROUND_PERCENT, HOUR_WEIGHTS = app_sessions.BACKGROUND_PERCENT, app_sessions.HOUR_WEIGHTS
DAY_S = 86_400


BOARDS = ["RPi2_600", "RPi4_1000", "RPi8_1500"]


def on_wifi(path: Path, condition: str, column: str) -> pd.DataFrame:
    """Mean of a column on each board (rows), alone and beside streaming and games (columns)."""
    rows = pd.read_csv(path)
    rows = rows[rows["condition"].str.contains(condition)]
    app = rows["condition"].str.extract("(Streaming|Games)", expand=False).fillna("alone")
    means = rows.assign(app=app).groupby(["device", "app"])[column].mean()
    return means.unstack().loc[BOARDS]


def test_streaming_takes_the_memory_that_was_measured(real_trace):
    """Mean of what three boards hold beside streaming less what they hold alone, on Wi-Fi."""
    percent = on_wifi(real_trace("rpi-contention") / "usage.csv.gz", "WIFI", "memory")
    more_mib = percent.sub(percent["alone"], axis=0).mul([2048, 4096, 8192], axis=0) / 100

    assert more_mib["Streaming"].tolist() == pytest.approx([279, 195, 227], abs=1)
    assert more_mib["Games"].tolist() == pytest.approx([65, 31, 69], abs=1)
    video = next(app for app in APPS if app.name == "video")
    assert abs(video.ram_mib - more_mib["Streaming"].mean()) < 32  # in steps of 64 MiB


def test_training_beside_video_and_games_is_slowed_as_it_was_measured(real_trace):
    """On Wi-Fi, alone against beside an app, on three boards: 1 - alone / beside."""
    path = real_trace("rpi-contention") / "training_time.csv.gz"
    time_s = on_wifi(path, "^Stationary_(?:(?:Streaming|Games)_)?WIFI", "Training Times")
    percent = {app.name: app.load_percent for app in APPS}

    for name, app in (("Streaming", "video"), ("Games", "game")):
        load = (1 - time_s["alone"] / time_s[name]).mean()
        assert 100 * load == pytest.approx(percent[app], abs=2)


def test_the_background_is_the_deciles_of_servers(real_trace):
    days = np.load(real_trace("cpu-planetlab") / "cpu_pct_5min-dev.npz")
    percent = np.concatenate([days[name] for name in days.files])
    hourly = percent.reshape(len(percent), 24, 12).mean(axis=2)
    deciles = np.quantile(hourly, np.arange(0.05, 1.0, 0.1))

    assert np.abs(deciles - BACKGROUND_PERCENT).max() < 0.6
