"""Published forms, written by hand; and statistics of published traces, against their pages."""

import csv
import gzip
import json

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.formats import import_any
from fleetsim.fleet.traces.network.files import read_net_trace
from fleetsim.fleet.traces.network.published_forms import (
    read_irish_5g,
    read_lumos5g,
    read_norway_3g,
)
from fleetsim.fleet.traces.usage.features_labels import read_features_labels
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.flash import read_flash_ready
from fleetsim.fleet.traces.usage.trace import Trace
from tests.fleet.net_traces import lasts_ms

DAY_S = 86_400

LUMOS = (
    "run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,"
    "lte_rssi,lte_rsrp,lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,"
    "trajectory_direction,tower_id\n"
)


def lumos_row(run: int, second: int, mbit_per_s: float, mode: str = "walking") -> str:
    signal = "3,44.97,-93.25,1.2,150,CONNECTED,-61,-93,-12,2147483647,-90,-11,5"
    return f"{run},{second},{signal},{mbit_per_s},{mode},CW,2\n"


def available(trace: Trace, user: int) -> list[int]:
    """Seconds of a record in which a user is online, charging and unmetered."""
    rows = slice(int(trace.offsets[user]), int(trace.offsets[user + 1]))
    assert trace.online.tolist() == trace.charging.tolist() == trace.unmetered.tolist()
    return np.flatnonzero(np.repeat(trace.online[rows], trace.lasts_s[rows])).tolist()


def test_lumos5g_has_a_record_for_each_run_and_joins_seconds_that_repeat(tmp_path):
    rows = [lumos_row(1, *row) for row in ((1, 100.0), (2, 200.0), (2, 400.0), (3, 50.5))]
    rows += [lumos_row(1, 1, 7.0, mode="driving"), lumos_row(2, 1, 9.0)]
    (tmp_path / "Lumos5G-v1.0.csv").write_text(LUMOS + "".join(rows))
    notes = import_any("lumos5g", tmp_path, tmp_path / "new")
    trace = read_net_trace(tmp_path / "new")

    assert trace.record_ids == ("walking-CW-1", "driving-CW-1", "walking-CW-2")
    assert trace.times_ms.tolist() == [0, 1000, 2000, 0, 0]
    assert trace.down_bit_per_s.tolist() == [100e6, 300e6, 50.5e6, 7e6, 9e6]
    assert trace.span_ms.tolist() == [3000, 1000, 1000]
    assert trace.up_bit_per_s is None
    assert notes[1] == (
        "2 rows of the same millisecond as another of their record, in 1 of 3 records; joined to 1"
        " samples by their mean"
    )


def test_lumos5g_refuses_a_folder_without_it_and_another_table(tmp_path):
    with pytest.raises(DataError, match=r"no Lumos5G\*.csv in it; name the file Lumos5G-v1"):
        read_lumos5g(tmp_path)
    (tmp_path / "Lumos5G.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"Lumos5G.csv, row 1: no column 'seq_num'"):
        read_lumos5g(tmp_path)


def test_ready_strict_is_read_in_whole_days_with_unions_counted(tmp_path):
    path = tmp_path / "ready_strict.json"
    pairs = [[90000.0, 90200.0], [86400.0, 86500.0], [90050.0, 90100.0], [99000.0, 99000.0]]
    path.write_text(json.dumps({"u1": pairs, "u2": [], "u3": [[10.0, 20.0]]}))
    records = read_flash_ready(path)

    assert records.trace.user_ids == ("u1", "u3")
    assert records.trace.span_s.tolist() == [DAY_S, DAY_S]
    assert available(records.trace, 0) == [*range(100), *range(3600, 3800)]
    assert available(records.trace, 1) == list(range(10, 20))
    assert records.notes == (
        "2 of 3 phones, 3 intervals",
        "left out: 1 never ready",
        "1 intervals dropped that last no second",
        "1 intervals not in order of time; sorted",
        "1 intervals overlap or touch the one before; joined to their union",
    )


def test_the_cache_of_timers_has_the_span_of_the_log(tmp_path):
    path = tmp_path / "cached_timers.json.gz"
    timer = {"isSuccess": True, "trace_start": 3600.0, "trace_end": 7200.0}
    document = {
        "g1": timer | {"ready_time": [[3700.0, 3800.0], [7100.0, 9000.0]]},
        "g2": timer | {"isSuccess": False, "ready_time": []},
        "g3": timer | {"trace_end": None, "ready_time": [[1.0, 2.0]]},
    }
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    notes = import_any("flash-ready", path, tmp_path / "new")
    trace = read_trace(tmp_path / "new")

    # The record of an hour from one o'clock on is rotated: it begins 3600 s after midnight.
    assert trace.span_s.tolist() == [3600]
    assert available(trace, 0) == [*range(100, 200), *range(3500, 3600)]
    assert notes == (
        "1 of 3 phones, 2 intervals",
        "left out: 1 without a readable log, 1 without a span",
        "1 intervals cut to the span of their log",
    )


@pytest.mark.parametrize(("text", "message"), [
    ('{"a": 3}', "phone 'a' has no list of .start, end. intervals; add or drop it"),
    ('{"a": [[1, 2], [3]]}', "phone 'a', interval 2: is not .start, end. in seconds"),
    ('{"a": [[1, true]]}', "phone 'a', interval 1: is not"),
    ('{"a": []}', "none of 1 phones can be read .1 never ready."),
])  # fmt: skip
def test_a_fault_of_ready_times_is_one_line(tmp_path, text, message):
    (tmp_path / "ready_loose.json").write_text(text)

    with pytest.raises(DataError, match=rf"ready_loose\.json.*{message}"):
        read_flash_ready(tmp_path / "ready_loose.json")


STATES = [
    f"discrete:{kind}:is_{name}"
    for kind, names in {
        "battery_plugged": "ac usb wireless",
        "battery_state": "unknown unplugged not_charging discharging charging full",
        "wifi_status": "not_reachable reachable_via_wifi reachable_via_wwan",
    }.items()
    for name in names.split()
]


def person_file(rows: list[tuple[int, set[str]]]) -> str:
    """A file with the columns of phone state; a row has a time and the states that hold."""
    lines = [",".join(["timestamp", "raw_acc:magnitude_stats:mean", *STATES, "label:SITTING"])]
    for at_s, states in rows:
        flags = [str(float(name.partition(":is_")[2] in states)) for name in STATES]
        lines.append(",".join([str(at_s), "nan", *flags, "1.0"]))
    return "\n".join([*lines, ""])


def test_published_files_of_extrasensory_give_charger_and_wifi_of_each_person(tmp_path):
    noon = 1_444_079_161
    ann = [
        (noon, {"charging", "reachable_via_wifi"}),
        (noon + 120, {"discharging", "not_reachable"}),
        (noon + 60, {"unknown"}),
        (noon + 120, {"usb", "discharging", "not_reachable"}),
    ]
    (tmp_path / "00AB.features_labels.csv.gz").write_bytes(gzip.compress(person_file(ann).encode()))
    (tmp_path / "11CD.features_labels.csv").write_text(person_file([(noon, {"full"})]))
    records = read_features_labels(tmp_path, "hold")
    trace = records.trace
    assert import_any("extrasensory", tmp_path, tmp_path / "new") == records.notes

    assert trace.user_ids == ("00AB", "11CD")
    assert (trace.span_s.tolist(), trace.times_s.tolist()) == ([180, 60], [0, 120, 0])
    assert trace.charging.tolist() == [True, True, True]
    assert trace.unmetered.tolist() == [True, False, False]
    assert records.begin_s.tolist() == [noon, noon]
    assert records.notes == (
        "5 rows of 2 people read",
        "1 rows earlier than the row above of their user; sorted by time",
        "1 rows of the same second as a later one of their user, which counts",
    )


def test_a_damaged_file_of_a_person_is_refused_in_one_line(tmp_path):
    path = tmp_path / "00AB.features_labels.csv"
    for text, message in [
        ("timestamp,a\n1,2\n", r"row 1: the columns discrete:battery_plugged:is_ac"),
        (person_file([]), "row 2: the table is empty"),
        (person_file([(-5, set())]), "row 2: timestamp = -5 is no Unix time"),
        (person_file([(5, set())]).replace("5,nan", "five,nan"), "below the header: .*'five'"),
    ]:
        path.write_text(text)
        with pytest.raises(DataError, match=rf"00AB\.features_labels\.csv.*{message}"):
            read_features_labels(path, "hold")


@pytest.mark.slow
def test_irish_downloads_have_the_published_rates(real_trace):
    source = real_trace("net-5g-irish")
    trace = read_irish_5g(source, app="Download")
    with gzip.open(source / "traces.csv.gz", "rt") as file:
        logs = [row for row in csv.DictReader(file) if row["app"] == "Download"]
    is_driving = np.array([log["mobility"] == "driving" for log in logs])
    driving = np.repeat(is_driving, np.diff(trace.offsets))

    assert trace.num_records == 21
    assert trace.times_ms.size == sum(int(log["rows"]) for log in logs) == 43_208
    assert trace.down_bit_per_s.max() == pytest.approx(533e6, abs=5e5)
    # Counted with a program of its own: 4.2 and 3.0 % of the samples are outages.
    assert (trace.down_bit_per_s[driving] == 0.0).mean() == pytest.approx(0.0423, abs=5e-4)
    assert (trace.down_bit_per_s[~driving] == 0.0).mean() == pytest.approx(0.0299, abs=5e-4)
    # Percentiles of the samples, and the mean over time, by a program of its own too: the logs hold
    # more rows in slow seconds.
    assert np.percentile(trace.down_bit_per_s, [10, 50, 90]) == pytest.approx(
        [1.1e4, 12.0725e6, 156.1579e6], rel=1e-6
    )
    mean_bit_per_s = np.average(trace.down_bit_per_s, weights=lasts_ms(trace))
    assert mean_bit_per_s == pytest.approx(45.48319e6, rel=1e-6)


def test_norwegian_commutes_have_the_published_length_and_range(real_trace):
    source = real_trace("net-hsdpa-norway")
    trace = read_norway_3g(source)
    with gzip.open(source / "traces.csv.gz", "rt") as file:
        logs = list(csv.DictReader(file))

    assert trace.record_ids == tuple(log["file"] for log in logs)
    assert trace.num_records == 80
    assert trace.span_ms.sum() / 3.6e6 == pytest.approx(5.8, abs=0.05)
    assert trace.span_ms / 1000.0 == pytest.approx([float(log["duration_s"]) for log in logs])
    highest = np.maximum.reduceat(trace.down_bit_per_s, trace.offsets[:-1]) / 1e6
    assert (highest <= np.array([float(log["max_mbps"]) for log in logs]) + 6e-4).all()
    assert (trace.down_bit_per_s > 0.0).all()


def test_flhetbench_sums_to_the_seconds_of_its_intervals(real_trace):
    home = real_trace("flash-flhetbench")
    table = read_csv_table(home / "intervals.csv.gz")
    trace = read_trace(home)

    assert (trace.num_users, table.num_rows) == (710, 14_139)
    by_hand_s = int((table.whole_numbers("end_s") - table.whole_numbers("start_s")).sum())
    assert int((trace.lasts_s * trace.online).sum()) == by_hand_s
