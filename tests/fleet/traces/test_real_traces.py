"""Statistics of published network traces, against their pages."""

import csv
import gzip

import numpy as np
import pytest

from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.network.published_forms import read_irish_5g, read_norway_3g
from fleetsim.fleet.traces.usage.files import read_trace


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
    mean_bit_per_s = np.average(trace.down_bit_per_s, weights=trace.lasts_ms)
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
