"""App sessions: loads and memory as measured, and states as in the trace."""

import gzip

import numpy as np
import pytest

from fleetsim.fleet.traces.usage.trace import Trace
from tests.fleet.traces.scripts import script_of

app_sessions = script_of("livelab-phones", "app_sessions")
APPS, with_app_sessions = app_sessions.APPS, app_sessions.with_app_sessions
BACKGROUND_PERCENT, HOUR_WEIGHTS = app_sessions.BACKGROUND_PERCENT, app_sessions.HOUR_WEIGHTS
DAY_S = 86_400


def always_on(num_users: int, span_s: int = 7 * DAY_S) -> Trace:
    yes = np.ones(num_users, dtype=bool)
    return Trace(
        name="always on",
        user_ids=tuple(map(str, range(num_users))),
        span_s=np.full(num_users, span_s),
        offsets=np.arange(num_users + 1),
        times_s=np.zeros(num_users, dtype=np.int64),
        online=yes,
        charging=yes,
        unmetered=yes,
        load=np.zeros(num_users),
    )


def test_streaming_takes_the_memory_that_was_measured(real_trace):
    """Mean of what three boards hold beside streaming less what they hold alone, on Wi-Fi."""
    mib = {"RPi2_600": 2048, "RPi4_1000": 4096, "RPi8_1500": 8192}
    held_mib: dict[tuple[str, str], list[float]] = {}
    with gzip.open(real_trace("rpi-contention") / "usage.csv.gz", "rt") as file:
        header = next(file).strip().split(",")
        for line in file:
            row = dict(zip(header, line.rstrip("\n").split(","), strict=True))
            if "WIFI" in row["condition"] and row["memory"]:
                app = "Streaming" if "Streaming" in row["condition"] else "alone"
                app = "Games" if "Games" in row["condition"] else app
                taken_mib = float(row["memory"]) / 100 * mib[row["device"]]
                held_mib.setdefault((row["device"], app), []).append(taken_mib)
    more = {
        app: [np.mean(held_mib[d, app]) - np.mean(held_mib[d, "alone"]) for d in ALL]
        for app in ("Streaming", "Games")
    }

    assert more["Streaming"] == pytest.approx([279, 195, 227], abs=1)
    assert more["Games"] == pytest.approx([65, 31, 69], abs=1)
    video = next(app for app in APPS if app.name == "video")
    assert abs(video.ram_mib - np.mean(more["Streaming"])) < 32  # in steps of 64 MiB


def test_the_mean_load_is_that_of_the_model():
    """Background plus sessions a day * mean length * load; 400 users, relative error about 4 %."""
    trace = with_app_sessions(always_on(400), seed=2)
    found = np.average(trace.load, weights=trace.lasts_s)
    per_day = app_sessions.SESSIONS_PER_DAY_MEDIAN * np.exp(0.6**2 / 2)
    # The mean of a log-normal that is cut off at two hours is a little less: drawn by hand.
    z = np.random.default_rng(1).standard_normal(100_000)
    busy_s = sum(
        app.chance * app.load_percent / 100 * np.minimum(app.median_s * np.exp(z), 7200).mean()
        for app in APPS
    )

    assert found == pytest.approx(0.108 + per_day * busy_s / DAY_S, rel=0.08)
    assert sum(app.chance for app in APPS) == pytest.approx(1.0)
    assert np.mean(BACKGROUND_PERCENT) == pytest.approx(10.8)
    assert len(HOUR_WEIGHTS) == 24


def test_training_beside_video_and_games_is_slowed_as_it_was_measured(real_trace):
    """On Wi-Fi, alone against beside an app, on three boards: 1 - alone / beside."""
    times_s: dict[tuple[str, str], list[float]] = {}
    with gzip.open(real_trace("rpi-contention") / "training_time.csv.gz", "rt") as file:
        next(file)
        for line in file:
            device, condition, *_, time = line.strip().split(",")
            what = condition.removeprefix("Stationary_").partition("_WIFI")
            if "Batt" not in condition and what[1] and time:
                times_s.setdefault((device, what[0]), []).append(float(time))
            elif condition.startswith("Stationary_WIFI") and time:
                times_s.setdefault((device, ""), []).append(float(time))
    loads = {
        app: np.mean([1 - np.mean(times_s[d, ""]) / np.mean(times_s[d, app]) for d in ALL])
        for app in ("Streaming", "Games")
    }
    percent = {app.name: app.load_percent for app in APPS}

    assert 100 * loads["Streaming"] == pytest.approx(percent["video"], abs=2)
    assert 100 * loads["Games"] == pytest.approx(percent["game"], abs=2)


ALL = ("RPi2_600", "RPi4_1000", "RPi8_1500")


def test_the_background_is_the_deciles_of_servers(real_trace):
    days = np.load(real_trace("cpu-planetlab") / "cpu_pct_5min-dev.npz")
    percent = np.concatenate([days[name] for name in days.files])
    hourly = percent.reshape(len(percent), 24, 12).mean(axis=2)
    deciles = np.quantile(hourly, np.arange(0.05, 1.0, 0.1))

    assert np.abs(deciles - BACKGROUND_PERCENT).max() < 0.6
