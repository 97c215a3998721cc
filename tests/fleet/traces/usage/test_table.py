"""Any table of usage: samples or intervals, joined by a stated rule and counted."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.errors import DataError
from fleetsim.fleet.traces.column_choice import column_choice
from fleetsim.fleet.traces.formats import ImportOptions, import_any
from fleetsim.fleet.traces.table_rows import Layout
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.records import UsageRecords
from fleetsim.fleet.traces.usage.table import read_usage_table, state_column

DAY_S = 86_400


def read(
    folder,
    text,
    *states,
    time="t",
    until=None,
    who=("who",),
    unknown="hold",
    utc_offset_h=None,
    missing=(),
) -> UsageRecords:
    path = folder / "own.csv"
    path.write_text(text, encoding="utf-8")
    return read_usage_table(
        path,
        time=column_choice("--time", time),
        until=None if until is None else column_choice("--until", until),
        who=tuple(column_choice("--who", name) for name in who),
        states=dict(map(state_column, states)),
        layout=Layout(missing=frozenset(missing)),
        unknown=unknown,
        utc_offset_h=utc_offset_h,
    )


def per_second(records: UsageRecords, user: int, column: int) -> list[float]:
    """A state of a user in every second of the record."""
    trace = records.trace
    rows = slice(int(trace.offsets[user]), int(trace.offsets[user + 1]))
    return np.repeat(trace.columns[column][rows], trace.lasts_s[rows]).astype(float).tolist()


def test_states_come_from_words_that_are_counted_and_hold_until_the_next_sample(tmp_path):
    text = "t,who,plug,net,x\n100,a,AC,wifi,1\n102,a,none,lte,1\n104,a,?,,1\n106,a,usb,wifi,1\n"
    records = read(tmp_path, text, "charging=plug", "unmetered=net", missing=("?",))

    assert records.begin_s.tolist() == [100]
    assert per_second(records, 0, 0) == [1] * 8
    for column in (1, 2):
        assert per_second(records, 0, column) == [1, 1, 0, 0, 0, 0, 1, 1]
    assert records.notes[1:] == (
        "charging 1: ac (1), usb (1)",
        "charging 0: none (1)",
        "unmetered 1: wifi (2)",
        "unmetered 0: lte (1)",
        "1 rows without charging, which is that before it",
        "1 rows without unmetered, which is that before it",
        "no column, so the same throughout: online 1, load 0, ram_byte 0",
    )


@pytest.mark.parametrize("word", ["NA", "n/a", "?", "5"])
def test_a_word_that_no_rule_names_is_refused_with_the_hint(tmp_path, word):
    text = f"t,who,plug\n0,a,ac\n1,a,{word}\n2,a,{word}\n"
    message = f"row 3: .*{re.escape(word)}.*charging=plug=WORD.*--missing .*1 more rows like it"

    with pytest.raises(DataError, match=message):
        read(tmp_path, text, "charging=plug")
    held = read(tmp_path, text, "charging=plug", missing=(word.lower(),))
    assert per_second(held, 0, 1) == [1, 1, 1]
    contrary = read(tmp_path, text, "charging=plug=ac,dok")
    assert per_second(contrary, 0, 1) == [1, 0, 0]
    assert contrary.notes[1] == "no row has charging 'dok'"
    assert f"charging 0: {word.lower()} (2)" in contrary.notes[3]


def test_a_load_that_adds_up_cores_is_divided_by_them(tmp_path):
    text = "t,who,cpu\n0,a,35\n60,a,105\n120,a,300\n"

    with pytest.raises(DataError, match=r"row 3: .*'105' is outside 0 to 100 %.*'load=cpu\[%/8\]'"):
        read(tmp_path, text, "load=cpu[%]")
    records = read(tmp_path, text, "load=cpu[%/3]")
    assert records.trace.load.tolist() == pytest.approx([0.35 / 3, 0.35, 0.999])
    with pytest.raises(DataError, match="is outside 0 to 200 %, the sum of 2 cores"):
        read(tmp_path, text, "load=cpu[%/2]")
    with pytest.raises(DataError, match="row 2: column 'cpu' = '35' is outside 0 to 1"):
        read(tmp_path, text, "load=cpu")


def test_the_unit_in_a_name_counts_unless_one_is_given(tmp_path):
    text = "t_ms,who,ram_mb,cpu_percent\n0,a,2,50\n3000,a,1,25\n"
    records = read(tmp_path, text, "ram_byte=ram_mb", "load=cpu_percent", time="t_ms")

    assert records.trace.span_s.tolist() == [6]
    assert per_second(records, 0, 4) == [2e6] * 3 + [1e6] * 3
    assert per_second(records, 0, 3) == [0.5] * 3 + [0.25] * 3
    assert "'t_ms' in ms, as its name says" in records.notes
    assert read(tmp_path, text, "load=cpu_percent", time="t_ms[s]").trace.span_s.tolist() == [6000]


SAMPLES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.sampled_from(["0", "1", ""])),
    min_size=1,
    max_size=25,
)


@given(SAMPLES)
@settings(max_examples=60, deadline=None)
def test_samples_in_any_order_are_a_walk_over_the_seconds(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("table")
    text = "t,who,c\n" + "".join(f"{t},{who},{flag}\n" for who, t, flag in rows)
    records = read(folder, text, "charging=c")

    for number, name in enumerate(records.trace.user_ids):
        of_user = [(t, flag) for who, t, flag in rows if who == name]
        begin = min(t for t, _ in of_user)
        walk, now = [], 0.0
        for second in range(begin, begin + int(records.trace.span_s[number])):
            for t, flag in of_user:
                if t == second and flag:
                    now = float(flag)
            walk.append(now)
        assert per_second(records, number, 1) == walk


def test_a_silence_is_held_or_offline_after_ten_minutes(tmp_path):
    text = "t,who,c\n0,a,1\n60,a,1\n1000,a,1\n"
    held = read(tmp_path, text, "charging=c")
    offline = read(tmp_path, text, "charging=c", unknown="offline")

    assert sum(per_second(held, 0, 0)) == 1500
    assert per_second(offline, 0, 0) == [1.0] * 660 + [0.0] * 340 + [1.0] * 500
    assert "1 rows with no other within 600 s after them; offline" in offline.notes


def test_intervals_become_their_union_in_whole_days(tmp_path):
    text = (
        "t,end,who\n90000,90100,a\n90050,90200,a\n90200,90300,a\n100,100,a\n86500,86600,a\n"
        ",5,a\n10,20,b\n"
    )
    records = read(tmp_path, text, until="end")
    trace = records.trace

    assert trace.user_ids == ("a", "b")
    assert trace.span_s.tolist() == [DAY_S, DAY_S]
    assert records.begin_s.tolist() == [DAY_S, 0]
    available = np.flatnonzero(per_second(records, 0, 0)).tolist()
    assert available == [*range(100, 200), *range(3600, 3900)]
    assert records.notes == (
        "7 intervals of 2 users read, 3 kept",
        "1 rows left out without a begin or an end",
        "1 rows left out that last no second",
        "1 rows earlier than the row above of their user; sorted by time",
        "2 rows overlap or touch one before them; joined to their union",
    )


def test_rows_and_users_that_do_not_count_are_left_out_and_counted(tmp_path):
    text = "t,who,c\n,a,1\n5,b,1\n,b,0\n5,,0\n7,NA,0\n"
    samples = read(tmp_path, text, "charging=c", missing=("na",))
    intervals = read(tmp_path, "t,end,who\n7,7,a\n8,8,a\n,9,c\n5,6,b\n", until="end")

    assert samples.trace.user_ids == intervals.trace.user_ids == ("b",)
    assert samples.notes[0] == "5 rows of 2 users read"
    assert samples.notes[3:6] == (
        "2 rows left out without a value of --who",
        "2 rows left out without a time",
        "1 users left out, none of whose rows is kept",
    )
    assert intervals.notes == (
        "4 intervals of 3 users read, 1 kept",
        "1 rows left out without a begin or an end",
        "2 rows left out that last no second",
        "2 users left out, none of whose intervals is kept",
    )


INTERVALS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 300), st.integers(0, 60)), min_size=1
)


@pytest.mark.slow
@given(INTERVALS)
@settings(max_examples=60, deadline=None)
def test_a_user_is_available_in_the_seconds_of_any_interval(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("table")
    text = "t,end,who\n" + "".join(f"{t},{t + long},{who}\n" for who, t, long in rows)
    if not any(long for _, _, long in rows):
        with pytest.raises(DataError, match="intervals lasts a second"):
            read(folder, text, until="end")
        return
    records = read(folder, text, until="end")

    for number, name in enumerate(records.trace.user_ids):
        seconds = {s for who, t, long in rows if who == name for s in range(t, t + long)}
        assert set(np.flatnonzero(per_second(records, number, 0)).tolist()) == seconds


def test_days_of_intervals_begin_at_the_users_midnight(tmp_path):
    text = "t,end,who\n1970-01-02 01:00:00+02:00,1970-01-02 02:30:00+02:00,a\n"
    records = read(tmp_path, text, until="end")

    # 01:00 in a zone two hours ahead is 23:00 of the day before in UTC.
    assert records.begin_s.tolist() == [DAY_S - 2 * 3600]
    assert np.flatnonzero(per_second(records, 0, 0)).tolist() == list(range(3600, 9000))


def test_the_import_rotates_samples_to_midnight_and_writes_counts_and_rules(tmp_path):
    text = "t,who,c\n1970-01-01 22:00:00,a,1\n1970-01-02 02:00:00,a,0\n1970-01-02 22:00:00,a,0\n"
    (tmp_path / "own.csv").write_text(text)
    options = ImportOptions(whole_days=True, time="t", who=("who",), state=("charging=c",))
    notes = import_any("table", tmp_path / "own.csv", tmp_path / "new", options)
    trace, readme = read_trace(tmp_path / "new"), (tmp_path / "new" / "README.md").read_text()

    assert trace.times_s.tolist() == [0, 7200, 79200]
    assert trace.charging.tolist() == [True, False, True]
    assert all(f"\n- {note}\n" in readme for note in notes)
    assert "the last one\n  counts" in readme


@pytest.mark.parametrize(("text", "until", "message"), [
    ("t,end,who\n0,1,a\n2,1,a\n", "end", r"row 3: column 'end' = '1' is before its begin"),
    ("t,who,c\n0,a,blue\n", None, "'blue' is no word for online .*online=c=WORD"),
    ("t,who,c\n0,a,lte\n", None, "row 2: column 'c' = 'lte' is no word for online or its"),
    ("t,who,c\n,a,1\n", None, "none of 1 rows has a time and a user; check --time"),
])  # fmt: skip
def test_a_fault_names_file_row_column_and_the_hint(tmp_path, text, until, message):
    with pytest.raises(DataError, match=rf"own\.csv.*{message}"):
        read(tmp_path, text, *([] if until else ["online=c"]), until=until)
