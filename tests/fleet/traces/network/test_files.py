import gzip
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.formats import ImportOptions, import_any
from fleetsim.fleet.traces.network.files import read_net_trace, write_net_trace
from fleetsim.fleet.traces.network.trace import NetTrace
from tests.fleet.net_traces import lasts_ms, net_trace

HEADER = "trace,t_s,down_bit_per_s,up_bit_per_s\n"
GOOD = HEADER + "bus,0,1e6,5e5\nferry,0,3e6,1e6\nbus,1.5,0,0\nbus,4,2000000,1\nferry,2,,\n"


def written(folder: Path, text: str, name: str = "rates.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def same(one: NetTrace, other: NetTrace) -> bool:
    columns = ("span_ms", "offsets", "times_ms", "down_bit_per_s", "up_bit_per_s")
    pairs = [(getattr(one, name), getattr(other, name)) for name in columns]
    return one.record_ids == other.record_ids and all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", ["rates.csv", "rates.csv.gz"])
def test_rows_are_sorted_by_trace_and_times_are_milliseconds(tmp_path, name):
    written(tmp_path, GOOD, name)
    trace = read_net_trace(tmp_path)

    assert trace.record_ids == ("bus", "ferry")
    assert trace.offsets.tolist() == [0, 3, 4]
    assert trace.times_ms.tolist() == [0, 1500, 4000, 0]
    assert trace.down_bit_per_s.tolist() == [1e6, 0.0, 2e6, 3e6]
    assert trace.up_bit_per_s is not None
    assert trace.up_bit_per_s.tolist() == [5e5, 0.0, 1.0, 1e6]


def test_the_last_sample_holds_as_long_as_the_one_before_unless_a_row_ends_it(tmp_path):
    text = "trace,t_s,down_bit_per_s\na,0,1\na,2,2\na,5,3\nb,0,1\nc,0,1\nc,7.25,\n"
    trace = read_net_trace(written(tmp_path, text))

    assert trace.span_ms.tolist() == [8000, 1000, 7250]
    assert lasts_ms(trace).tolist() == [2000, 3000, 3000, 1000, 7250]
    assert trace.up_bit_per_s is None


@pytest.mark.parametrize("has_up", [True, False])
def test_what_is_written_is_read_again(tmp_path, has_up):
    trace = net_trace(
        [(1234, [(0, 1e6 / 3.0, 0.1), (17, 0.0, 0.0)]), (5, [(0, 2.0, 7.0)])], has_up=has_up
    )
    for name in ("one", "two"):
        write_net_trace(trace, tmp_path / name, readme="# Mine\n")
    one, two = ((tmp_path / name / "rates.csv.gz").read_bytes() for name in ("one", "two"))

    assert same(read_net_trace(tmp_path / "one"), trace)
    assert one == two


@pytest.mark.parametrize(("rows", "message"), [
    ("a,0,1,1\na,1,x,1\n", r"row 3: down_bit_per_s = 'x' is not a number"),
    ("a,0,1,1\na,1,-2,1\n", r"row 3: down_bit_per_s = -2 is not in \[0, 1e\+15\]"),
    ("a,0,1,1\na,1,1,nan\n", r"row 3: up_bit_per_s = nan is not in"),
    ("a,0,1,1\na,1,,1\n", r"row 3: down_bit_per_s is empty; give every rate"),
    ("a,0,1,1\na,1,1\n", r"row 3: 3 fields under a header of 4"),
    ("a,0.0005,1,1\n", r"row 2: t_s = '0\.0005' is no whole number of milliseconds; round"),
    ("a,-1,1,1\n", r"row 2: t_s = -1 is not in \[0, 1e\+09\]"),
    ("a,3,1,1\na,4,1,1\n", r"row 2: the first sample is at 3 s; take that off"),
    ("a,0,1,1\na,2,1,1\na,1,1,1\n", r"row 4: 1 s does not come after 2 s; sort"),
    ("a,0,1,1\nb,0,1,1\na,0,1,1\n", r"row 4: 0 s does not come after 0 s"),
    ("a,0,1,1\nb,0,0,0\nb,1,0,0\n", r"row 3: trace 'b' never carries a bit; drop it"),
    ("a,0,1,1\na,1,,\na,2,1,1\n", r"row 4: comes after the row without rates"),
    ("a,0,1,1\nb,1,,\n", r"row 3: ends a trace that has no sample"),
    ("a,0,1,1\na,2,1,1\na,2,,\n", r"row 3: begins at 2 s, not before the trace's end at 2 s"),
    ("", ": no samples"),
])  # fmt: skip
def test_a_wrong_row_is_named_with_its_file(tmp_path, rows, message):
    path = written(tmp_path, HEADER + rows)

    with pytest.raises(DataError, match=rf"^{path}.*{message}.*$"):
        read_net_trace(path)


IRISH = (
    "Timestamp,Longitude,Latitude,Speed,NetworkMode,DL_bitrate,UL_bitrate,State\n"
    "2019.12.16_13.40.04,-8.5,51.9,0,5G,1000,10,D\n"
    "2019.12.16_13.40.04,-8.5,51.9,0,5G,3000,10,D\n"
    "2019.12.16_13.40.07,-8.5,51.9,0,LTE,0,0,I\n"
)
IRISH_TABLE = (
    "trace,t_s,dl_kbps,ul_kbps,mode\n0,0,5,1,LTE\n1,0,1000,10,5G\n1,0,3000,10,5G\n1,3,0,0,LTE\n"
)
IRISH_LOGS = "trace,app,mobility,file\n0,Netflix,static,B_1\n1,Download,driving,B_2\n"


def test_irish_logs_are_downloads_from_an_archive_as_from_a_table(tmp_path):
    written(tmp_path, IRISH, "5G/Download/Driving/B_2.csv")
    written(tmp_path, IRISH.replace("1000", "5"), "5G/Netflix/Static/B_1.csv")
    written(tmp_path, IRISH_TABLE, "table/samples.csv.gz")
    written(tmp_path, IRISH_LOGS, "table/traces.csv.gz")
    for source, name in (("5G", "Download-Driving-B_2"), ("table", "B_2")):
        import_any("irish-5g", tmp_path / source, tmp_path / "mine" / source)
        trace = read_net_trace(tmp_path / "mine" / source)

        assert trace.record_ids == (name,)
        assert (trace.times_ms.tolist(), trace.span_ms.tolist()) == ([0, 500, 3000], [4000])
        assert trace.down_bit_per_s.tolist() == [1e6, 3e6, 0.0]
        assert trace.up_bit_per_s is None
    import_any("irish-5g", tmp_path / "table", tmp_path / "netflix", ImportOptions(app="Netflix"))
    assert read_net_trace(tmp_path / "netflix").down_bit_per_s.tolist() == [5000.0]


NORWAY = "0.0 9.9\n0.55 4.0\n2.05 0.5\n"
NORWAY_TABLE = "trace,t_s,mbps\n0,0.000,9.9\n0,0.550,4.0\n0,2.050,0.5\n"
NORWAY_LOGS = "trace,file,rows\n0,norway_bus_1,3\n"


def test_a_norwegian_rate_holds_before_its_time(tmp_path):
    written(tmp_path, NORWAY, "3g/norway_bus_1")
    written(tmp_path, NORWAY_TABLE, "table/samples.csv.gz")
    written(tmp_path, NORWAY_LOGS, "table/traces.csv.gz")
    for source in ("3g", "table"):
        import_any("norway-3g", tmp_path / source, tmp_path / "mine" / source)
    one, other = (read_net_trace(tmp_path / "mine" / source) for source in ("3g", "table"))

    assert one.record_ids == ("norway_bus_1",)
    assert (one.times_ms.tolist(), one.span_ms.tolist()) == ([0, 550], [2050])
    assert one.down_bit_per_s.tolist() == [4e6, 5e5]
    assert same(one, other)


LACKING = {"samples.csv": IRISH_TABLE, "traces.csv": "trace,app,file\n0,Netflix,B_1\n"}


def download(old: str, new: str) -> dict[str, str]:
    return {"Download/B.csv": IRISH.replace(old, new)}


@pytest.mark.parametrize(("format_", "files", "message"), [
    ("irish-5g", {"Netflix/B.csv": IRISH}, "no log of the application 'Download'"),
    ("irish-5g", {"Download/B.csv": "Timestamp,DL\n"}, r"B\.csv, row 1: no column DL_bitrate"),
    ("irish-5g", download("2019.12.16_13.40.07", "soon"), r"row 4: Timestamp = 'soon' is not"),
    ("irish-5g", download("13.40.07", "13.40.03"), r"B\.csv, row 4: is earlier than the row"),
    ("irish-5g", LACKING, r"samples\.csv, row 3: trace '1' is not in traces\.csv"),
    ("norway-3g", {"log": "0 1\n1 2 3\n"}, r"log, row 2: '1 2 3' is not a time and a rate"),
    ("norway-3g", {"log": "0 1\n"}, "log 'log' has fewer than two samples"),
    ("norway-3g", {"log": "0 1\n1 inf\n"}, "down_bit_per_s = inf is not in"),
    ("norway-3g", {"log": "0 1\n0 2\n"}, "begins at 0 s, not before the trace's end"),
    ("norway-3g", {"sub/log": "0 1\n"}, "no log in it"),
    ("rates", {"states.csv": "user\n"}, r"no rates\.csv"),
    ("rates", {"rates.csv": "trace,t_s,mbps\n"}, "row 1: unknown header 'trace,t_s,mbps'; a"),
])  # fmt: skip
def test_a_wrong_source_is_refused_and_leaves_nothing(tmp_path, format_, files, message):
    for name, text in files.items():
        written(tmp_path / "source", text, name)

    with pytest.raises(DataError, match=message):
        import_any(format_, tmp_path / "source", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
