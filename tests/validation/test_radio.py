"""Radios beside measurements: the carried means are those of the raw data, the fits are fits."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fleetsim.fleet.devices.profile import load_radio
from fleetsim.validation import measurements, radio

NAMES = {"LTE": "lte", "NSALow": "nr-low", "mmwave": "nr-mmwave"}
WAYS = {"downlink": "down", "uplink": "up"}


@cache
def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def test_points_of_power_by_rate_are_means_of_the_raw_seconds_and_radio_files_their_lines(
    real_trace: Callable[[str], Path],
) -> None:
    seconds = defaultdict(list)
    for row in rows_of(real_trace("radio-power-5g") / "transfer_power.csv.gz"):
        key = NAMES[row["network type"]], WAYS[row["direction"]], float(row["target bandwidth"])
        seconds[key].append((float(row["throughput"]), float(row["avg_power"]) / 1e3))
    table = measurements.table("radio-power")
    assert len(table) == len(seconds) == 99
    for name, way, target, rate, power_w, num in table.itertuples(index=False):
        mean_rate, mean_w = np.mean(seconds[name, way, target], axis=0)
        assert len(seconds[name, way, target]) == num
        assert rate == pytest.approx(mean_rate, abs=0.006)
        assert power_w == pytest.approx(mean_w, abs=6e-4)
    for line in radio.power_lines():
        of_line = [seconds[key] for key in seconds if key[:2] == (line.radio, line.direction)]
        rates, powers_w = np.array([np.mean(one, axis=0) for one in of_line]).T
        slope, intercept = np.polyfit(rates, powers_w, 1)
        profile, is_down = load_radio(line.radio), line.direction == "down"
        base_w = profile.receive_w if is_down else profile.transmit_w
        j_per_bit = profile.receive_j_per_bit if is_down else profile.transmit_j_per_bit
        assert base_w == pytest.approx(intercept - 2.35, abs=1e-3)
        assert j_per_bit * 1e6 == pytest.approx(slope, abs=1e-5)
        # A line through single seconds, whose rates scatter, is flatter.
        rates, powers_w = np.concatenate(of_line).T
        assert np.polyfit(rates, powers_w, 1)[0] < slope


def test_latencies_and_single_connections_are_medians_of_the_raw_tests(real_trace):
    kinds = {"4G-LTE": "lte", "5G-NSA-Low-Band": "nr-low", "5G-NSA-mmWave": "nr-mmwave"}
    latency, single = defaultdict(list), []
    for row in rows_of(real_trace("radio-power-5g") / "speedtest.csv.gz"):
        if row["type"] == "latency" and row["radio_type"] in kinds:
            latency[kinds[row["radio_type"]]].append(float(row["latency_ms"]))
        if (row["type"], row["connection_mode"], row["radio_type"]) == (
            "downlink",
            "single",
            "5G-NSA-mmWave",
        ):
            single.append((float(row["latency_ms"]), float(row["downlink_Mbps"])))
    for name, milliseconds in latency.items():
        assert load_radio(name).rtt_s == pytest.approx(np.median(milliseconds) / 1e3)
    table, tests = measurements.table("one-connection"), np.array(single)
    edges = [0, 20, 40, 55, 65, 75, 85, 120]
    group = np.searchsorted(edges, tests[:, 0], side="right") - 1
    medians = [np.median(tests[group == index], axis=0) for index in range(7)]
    assert table["rtt_s"].tolist() == pytest.approx([ms / 1e3 for ms, _ in medians])
    assert table["mbit_per_s"].tolist() == pytest.approx([mbit for _, mbit in medians], abs=0.06)
    # What the default receive window is read off: rate times round trip, in MiB.
    far = tests[tests[:, 0] > 20]
    window_mib = far[:, 0] / 1e3 * far[:, 1] * 1e6 / 8 / 2**20
    assert np.percentile(window_mib, [25, 75]) == pytest.approx([7.3, 7.9], abs=0.06)


@pytest.mark.slow
def test_pings_in_ireland_are_the_round_trip_of_3g(real_trace: Callable[[str], Path]) -> None:
    pings = [
        float(row["ping_avg_ms"])
        for row in rows_of(real_trace("net-5g-irish") / "samples.csv.gz")
        if row["mode"] == "HSPA+" and row["ping_avg_ms"]
    ]

    assert len(pings) == 278
    assert load_radio("3g").rtt_s == pytest.approx(np.median(pings) / 1e3)


def test_less_than_one_sample_in_a_hundred_is_faster_than_its_radio(real_trace):
    home = real_trace("net-5g-irish")
    apps = {row["trace"]: row["app"] for row in rows_of(home / "traces.csv.gz")}
    rates = defaultdict(list)
    for row in rows_of(home / "samples.csv.gz"):
        if apps[row["trace"]] == "Download":
            rates[row["mode"]].append(float(row["dl_kbps"]) / 1e3)
    in_ireland = measurements.table("fastest-samples").query("campaign == 'ireland'")
    carried = {row.radio: row for row in measurements.rows(in_ireland)}
    for mode, name in (("LTE", "lte"), ("5G", "nr-low"), ("HSPA+", "3g")):
        most = load_radio(name).max_down_bit_per_s / 1e6
        assert np.mean(np.array(rates[mode]) > most) < 0.01
        assert carried[name].num == len(rates[mode])
        assert carried[name].p99_mbit_per_s == pytest.approx(
            np.percentile(rates[mode], 99), abs=0.06
        )
