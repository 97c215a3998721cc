"""Any table of rates: units, times, and samples that repeat or are out of order, counted."""

import re
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.column_choice import column_choice
from fleetsim.fleet.traces.formats import ImportOptions, import_any
from fleetsim.fleet.traces.network.table import ReadRates, read_rate_table
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.fleet.traces.table_rows import SEEN, Layout


def read(folder, text, *, time="t", rate="r[bit/s]", up=None, who=(), **changes) -> ReadRates:
    path = folder / "own.csv"
    path.write_text(text, encoding="utf-8")
    return read_rate_table(
        path,
        time=column_choice("--time", time),
        down=column_choice("--rate", rate),
        up=None if up is None else column_choice("--up-rate", up),
        who=tuple(column_choice("--who", name) for name in who),
        **changes,
    )


def samples(trace: NetTrace) -> dict[str, list[tuple[int, float]]]:
    """(ms, rate) of every record, and its end as (ms, -1)."""
    records = {}
    for at, name in enumerate(trace.record_ids):
        rows = slice(int(trace.offsets[at]), int(trace.offsets[at + 1]))
        pairs = zip(trace.times_ms[rows].tolist(), trace.down_bit_per_s[rows].tolist(), strict=True)
        records[name] = [*pairs, (int(trace.span_ms[at]), -1.0)]
    return records


@pytest.mark.parametrize(
    ("unit", "bit_per_s"), [("bps", 2.0), ("kbit/s", 2e3), ("MB/s", 16e6), ("KiB/s", 16384.0)]
)
def test_a_rate_has_the_unit_in_the_brackets(tmp_path, unit, bit_per_s):
    assert read(tmp_path, "t,r\n0,2\n", rate=f"r[{unit}]").trace.down_bit_per_s[0] == bit_per_s


@pytest.mark.parametrize(("time", "first", "second"), [
    ("t", "10", "12.5"),
    ("t[ms]", "1583020800000", "1583020802500"),
    ("t[ns]", "1583020800000000000", "1583020802500000000"),
    ("t[min]", "1", "1.0416666666667"),
    ("t", "2020-03-01 00:00:00", "2020-03-01T00:00:02.500"),
    ("t", "2020-02-29T23:59:59.000+00:00", "2020-03-01T02:00:01.500+02:00"),
    ("t[iso]", "2020-03-01 00:00:00Z", "2020-03-01 00:00:02.500Z"),
    ("t[%d.%m.%Y %H:%M:%S.%f]", "31.12.2019 23:59:59.000", "01.01.2020 00:00:01.500"),
])  # fmt: skip
def test_times_are_seconds_epochs_or_dates_and_count_from_the_first(tmp_path, time, first, second):
    result = read(tmp_path, f"t,r\n{first},1\n{second},2\n", time=time).trace

    assert samples(result) == {"all": [(0, 1.0), (2500, 2.0), (5000, -1.0)]}


def test_extra_columns_are_ignored_and_missing_values_left_out_and_counted(tmp_path):
    text = "x, t ,r,who\n1,0,5,a\n1,,6,b\n1,1,,b\n1,2,nan,a\n1,3,NA,a\n1,4,7,a\n"
    result = read(tmp_path, text, who=("who",), layout=Layout(missing=frozenset({"nan", "na"})))

    assert samples(result.trace) == {"a": [(0, 5.0), (4000, 7.0), (8000, -1.0)]}
    assert "6 rows read, 2 samples kept" in result.notes
    assert "1 rows left out without a time" in result.notes
    assert "3 rows left out without a rate" in result.notes
    assert "1 records left out, none of whose rows is kept" in result.notes


@pytest.mark.parametrize(("text", "layout", "notes"), [
    ("t;r\n0,0;1,5\n1,5;2\n", SEEN, 3),
    ("t\tr\n0\t1.5\n\n1.5\t2.0\n\n", SEEN, 2),
    ("sep=;\r\nt;r\r\n0;1,5\r\n1,5;2\r\n", SEEN, 3),
    ("t|r|x, y\n0|1.5|a, b\n1.5|2|\n", SEEN, 1),
    ('"t";"r"\n"0";"1,5"\n"1,5";"2"\n', SEEN, 3),
    ('t,r\n0,"1,5"\n"1,5",2\n', SEEN, 2),
    ("t   r\n0   1.5\n1.5 2\n", Layout(" "), 0),
    ("t;r\n0;1,500\n1,500;2,000\n", Layout(decimal=","), 1),
])  # fmt: skip
def test_separators_and_decimal_commas_are_seen_or_given_and_said(tmp_path, text, layout, notes):
    result = read(tmp_path, text, layout=layout)

    assert samples(result.trace) == {"all": [(0, 1.5), (1500, 2.0), (3000, -1.0)]}
    layout_notes = [note for note in result.notes if re.search("separated|decimal|blank", note)]
    assert len(layout_notes) == notes


def test_repeated_and_unordered_samples_are_counted_and_joined_to_their_mean(tmp_path):
    text = "t,r,who\n0,10,a\n2,30,a\n1,20,a\n2,50,a\n2,40,a\n7,1,b\n"
    result = read(tmp_path, text, who=("who",))

    assert samples(result.trace) == {
        "a": [(0, 10.0), (1000, 20.0), (2000, 40.0), (3000, -1.0)],
        "b": [(0, 1.0), (1000, -1.0)],
    }
    assert result.notes == (
        "6 rows read, 4 samples kept",
        "1 rows earlier than the row above in their record; sorted by time",
        "3 rows of the same millisecond as another of their record, in 1 of 2 records; joined to 1"
        " samples by their mean",
        "2 records, 0.00 h",
        "longest time from a sample to the next: 1 s",
    )


def test_a_pause_splits_a_record_on_request_and_is_said_otherwise(tmp_path):
    text = "t,r,who\n0,1,a\n1,2,a\n61,3,a\n62,4,a\n0,9,b\n"
    whole = read(tmp_path, text, who=("who",))
    split = read(tmp_path, text, who=("who",), split_gap_s=30.0)

    # The last sample lasts as long as the median one, of 1, 60 and 1 s.
    assert whole.trace.span_ms.tolist() == [63_000, 1000]
    assert whole.notes[-1] == "longest time from a sample to the next: 60 s"
    assert split.notes[-1] == "1 pauses of more than 30 s end a record"
    assert samples(split.trace) == {
        "a": [(0, 1.0), (1000, 2.0), (2000, -1.0)],
        "a/2": [(0, 3.0), (1000, 4.0), (2000, -1.0)],
        "b": [(0, 9.0), (1000, -1.0)],
    }
    assert read(tmp_path, text, who=("who",), split_gap_s=60.0).trace.num_records == 2


def test_a_rate_of_one_direction_is_held_and_a_silent_record_left_out(tmp_path):
    text = "t,r,u,who\n0,,4,a\n1,6,,a\n2,7,5,a\n0,0,0,b\n"
    result = read(tmp_path, text, up="u[kbit/s]", who=("who",))

    assert samples(result.trace) == {"a": [(0, 0.0), (1000, 6.0), (2000, 7.0), (3000, -1.0)]}
    assert result.trace.up_bit_per_s is not None
    assert result.trace.up_bit_per_s.tolist() == [4e3, 4e3, 5e3]
    assert "2 rows without one of the two rates, which is that before it" in result.notes
    assert "1 records left out that never carry a bit" in result.notes


def test_records_are_named_after_several_columns(tmp_path):
    text = "t,r,mode,run\n0,1,walk,1\n0,2,drive,1\n0,3,walk,2\n"

    trace = read(tmp_path, text, who=("mode", "run")).trace
    assert trace.record_ids == ("walk-1", "drive-1", "walk-2")
    with pytest.raises(DataError, match="differ and make one name, 'a-b-c'"):
        read(tmp_path, "t,r,m,n\n0,1,a-b,c\n0,1,a,b-c\n", who=("m", "n"))


ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 6_000), st.integers(1, 9)), min_size=1
)


@given(ROWS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_table_in_any_order_is_the_mean_of_each_moment(tmp_path_factory, rows, by_second):
    text = "t,r,who\n" + "".join(f"{ms / 1000},{rate},{who}\n" for who, ms, rate in rows)
    folder = tmp_path_factory.mktemp("table")
    result = samples(read(folder, text, who=("who",), by_second=by_second).trace)

    expected: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for who, ms, rate in rows:
        expected[who][ms // 1000 * 1000 if by_second else ms].append(rate)
    assert set(result) == set(expected)
    for who, moments in expected.items():
        begin = min(moments)
        means = {ms - begin: sum(rates) / len(rates) for ms, rates in moments.items()}
        assert [ms for ms, _ in result[who][:-1]] == sorted(means)
        assert dict(result[who][:-1]) == pytest.approx(means)


@pytest.mark.parametrize(("text", "given", "message"), [
    ("t,r\n0,1\n1,x\n2,y\n", {}, "row 3: column 'r' = 'x' is no number; .* (1 more rows"),
    ("t,r\n0,1\n1,-4\n", {}, "row 3: column 'r' = '-4' is below 0"),
    ("t,r\n0,1\n\n1,NA\n", {}, "row 4: column 'r' = 'NA' is no number.* pass --missing NA"),
    ("t,r\n0,1_0\n", {}, "row 2: column 'r' = '1_0' is no number"),
    ("t,r\n0,5\n1,4294967295\n", {}, "row 3: .* stands for a value that was not measured"),
    ("t,r\n0,5\n1,999\n", {}, "row 3: .*'999' stands for a value that was not measured"),
    ("t;r\n0;1,500\n1;2,250\n", {}, "row 2: .*'1,500' is no number.*pass --decimal ,"),
    ("t,r\n0,1\n", {"rate": "r[Gbps]", "time": "tt"}, "row 1: no column 'tt' .--time.; the"),
    ("t,r\n0,1\n", {"rate": "R[bit/s]"}, "row 1: no column 'R' .*did you mean 'r'"),
    ("t,r\n0,9e15\n", {}, "row 2: column 'r' = '9e15' is beyond 1e.15 bit/s; check the unit"),
    ("t,r\n1583020800000,1\n", {}, "row 2: column 't' = .* beyond .* such as --time 't.ms.'"),
    ("t,r\n2020-01-01,1\n2020-13-01,1\n", {}, "row 3: column 't' = '2020-13-01' is no date"),
    ("t,r\n1.2.20,1\n", {"time": "t[%d.%m.%Y]"}, "row 2: .*'1.2.20' is no date of the form"),
    ("t,r\n,\n", {}, "none of 1 rows has a time and a rate"),
    ("t,r\n0,0\n", {}, "no record carries a bit"),
])  # fmt: skip
def test_a_fault_names_file_row_column_and_the_hint(tmp_path, text, given, message):
    with pytest.raises(DataError, match=f"own.csv.*{message}".replace("(1 more", r"\(1 more")):
        read(tmp_path, text, **given)


@pytest.mark.parametrize(("options", "message"), [
    (ImportOptions(time="t", rate="r[Mb/s]"), "'Mb/s' is not known; must .*MiB/s$"),
    (ImportOptions(time="t", rate="r[kbits]"), "'kbits' is not known; .*did you mean 'kbit/s'"),
    (ImportOptions(time="t"), "no --state is given, and no --rate"),
    (ImportOptions(time="t", state=("charging=r",), by_second=True), "--by-second belongs to"),
    (ImportOptions(time="t", until="r", up_rate="r"), "--up-rate belongs to a network"),
    (ImportOptions(time="t", rate="r[bit/s]", until="r"), "--rate means a network"),
    (ImportOptions(time="t", rate="r[bit/s]", split_gap_s=0.0), "must be above 0 s"),
    (ImportOptions(time="t", until="r", state=("online=r",)), "leave one out"),
    (ImportOptions(time="t", state=("asleep=r",)), "with a STATE of online"),
    (ImportOptions(time="t", state=("load=r=high",)), "words are for online"),
    (ImportOptions(time="t", state=("online=r", "online=t")), "names a state twice"),
])  # fmt: skip
def test_options_that_do_not_go_together_are_refused(tmp_path, options, message):
    (tmp_path / "own.csv").write_text("t,r\n0,1\n")

    with pytest.raises(ScenarioError, match=message):
        import_any("table", tmp_path / "own.csv", tmp_path / "new", options)
    assert not (tmp_path / "new").exists()
