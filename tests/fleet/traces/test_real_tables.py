"""Real tables through `trace import table`, against counts of their rows by other means."""

import csv
import gzip
from collections import Counter

import numpy as np
import pytest

from fleetsim.fleet.traces.formats import import_any
from fleetsim.fleet.traces.network.files import read_net_trace
from fleetsim.fleet.traces.table_import import TableOptions
from fleetsim.fleet.traces.usage.files import read_trace


@pytest.mark.slow
def test_the_irish_table_has_as_many_samples_as_different_seconds(real_trace, tmp_path):
    source = real_trace("net-5g-irish") / "samples.csv.gz"
    columns = TableOptions(
        time="t_s", rate="dl_kbps[kbit/s]", up_rate="ul_kbps[kbps]", who=("trace",)
    )
    notes = import_any("table", source, tmp_path / "new", columns=columns)
    trace = read_net_trace(tmp_path / "new")

    with gzip.open(source, "rt") as file:
        rows = [(row["trace"], row["t_s"], float(row["dl_kbps"])) for row in csv.DictReader(file)]
    seconds = Counter((name, t_s) for name, t_s, _ in rows)
    repeated = {key for key, num in seconds.items() if num > 1}
    assert notes[0] == f"{len(rows)} rows read, {len(seconds)} samples kept"
    assert f"{sum(seconds[key] for key in repeated)} rows of the same millisecond" in "".join(notes)
    assert f"joined to {len(repeated)} samples" in "".join(notes)
    assert trace.times_ms.size == len(seconds)
    # The mean over the seconds of the first trace, by hand.
    own = [(t_s, rate) for name, t_s, rate in rows if name == rows[0][0]]
    by_second: dict[str, list[float]] = {}
    for t_s, rate in own:
        by_second.setdefault(t_s, []).append(rate * 1e3)
    means = [sum(rates) / len(rates) for rates in by_second.values()]
    found = trace.down_bit_per_s[: int(trace.offsets[1])]
    assert sorted(found.tolist()) == pytest.approx(sorted(means))


@pytest.mark.slow
def test_a_table_of_extrasensory_is_what_its_own_reader_reads(real_trace, tmp_path):
    source = real_trace("extrasensory") / "states-dev.csv.gz"
    columns = TableOptions(
        time="t", who=("user",), state=("charging=battery_state=charging,full", "unmetered=net")
    )
    import_any("table", source, tmp_path / "new", columns=columns)
    own, theirs = read_trace(tmp_path / "new"), read_trace(source)

    assert own.user_ids == theirs.user_ids
    assert own.num_users == 28
    # Their reader also counts plugged phones whose battery says something else; most seconds agree.
    charging = [float((t.lasts_s * t.charging).sum() / t.lasts_s.sum()) for t in (own, theirs)]
    wifi = [float((t.lasts_s * t.unmetered).sum() / t.lasts_s.sum()) for t in (own, theirs)]
    assert wifi[0] == pytest.approx(wifi[1], abs=1e-4)
    assert charging[0] == pytest.approx(charging[1], abs=0.02)


@pytest.mark.slow
def test_intervals_of_flhetbench_keep_their_seconds(real_trace, tmp_path):
    source = real_trace("flash-flhetbench") / "intervals.csv.gz"
    columns = TableOptions(time="start_s", until="end_s", who=("user",))
    notes = import_any("table", source, tmp_path / "new", columns=columns)
    trace = read_trace(tmp_path / "new")

    with gzip.open(source, "rt") as file:
        long_s = [int(row["end_s"]) - int(row["start_s"]) for row in csv.DictReader(file)]
    assert int((trace.lasts_s * trace.online).sum()) == sum(long_s)
    assert f"{np.count_nonzero(np.array(long_s) == 0)} rows left out that last no second" in notes
