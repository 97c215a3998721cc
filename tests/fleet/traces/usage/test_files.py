import gzip

import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.files import read_trace, write_trace
from fleetsim.fleet.traces.usage.trace import Trace

STATES = "user,t_s,online,charging,unmetered,load\n"
USERS = "user,span_s\na,10\nb,5\n"
ZONE = "user,span_s,utc_offset_h\n"
INTERVALS = "user,start_s,end_s\n"
INTERVAL_USERS = "user,trace_start_s,trace_end_s\na,86400,172800\n"
SAMPLES = "user,os,t,battery,battery_state,plugged,net,app_state\n"
# 2015-10-05 07:00 UTC: midnight in San Diego (UTC-7).
MIDNIGHT = 1_444_028_400


def put(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def changes(trace: Trace, user: int = 0) -> list[tuple[int, bool, bool, bool, float]]:
    part = slice(trace.offsets[user], trace.offsets[user + 1])
    columns = (trace.times_s, trace.online, trace.charging, trace.unmetered, trace.load)
    return list(zip(*(column[part].tolist() for column in columns), strict=True))


def samples(*rows: tuple[int, str, str, str]) -> str:
    """Rows of (t after midnight, battery_state, plugged, net) of user 7."""
    lines = [f"7,ios,{MIDNIGHT + t},0.5,{state},{plug},{net},\n" for t, state, plug, net in rows]
    return SAMPLES + "".join(lines)


def test_states_are_read_in_the_order_of_the_users_file(tmp_path):
    put(tmp_path, users=USERS, states=STATES + "b,0,1,0,1,0\na,0,1,1,0,0.5\na,4,0,0,0,0\n\n")
    trace = read_trace(tmp_path)

    assert trace.user_ids == ("a", "b")
    assert trace.span_s.tolist() == [10, 5]
    assert changes(trace) == [(0, True, True, False, 0.5), (4, False, False, False, 0.0)]
    assert changes(trace, 1) == [(0, True, False, True, 0.0)]


def test_a_written_trace_reads_back_equal_and_its_bytes_repeat(tmp_path):
    put(tmp_path, users=USERS, states=STATES + "a,0,1,1,0,0.1\na,4,0,0,0,1e-05\nb,0,1,0,1,0\n")
    trace = read_trace(tmp_path)
    write_trace(trace, tmp_path / "one")
    write_trace(read_trace(tmp_path / "one"), tmp_path / "two")
    again = read_trace(tmp_path / "two")

    assert (again.user_ids, again.span_s.tolist()) == (trace.user_ids, trace.span_s.tolist())
    assert [changes(again, user) for user in (0, 1)] == [changes(trace, user) for user in (0, 1)]
    for name in ("states.csv.gz", "users.csv.gz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "README.md",
        "states.csv.gz",
        "users.csv.gz",
    ]


@pytest.mark.parametrize("says_memory", [True, False])
def test_memory_of_apps_is_read_and_written_where_it_is_said_and_none_elsewhere(
    tmp_path, says_memory
):
    rows = ["a,0,1,1,0,0.5,1048576", "a,4,0,0,0,0,0", "b,0,1,0,1,0,7"]
    lines = [f"{STATES.strip()},ram_byte", *rows]
    kept = lines if says_memory else [line.rpartition(",")[0] for line in lines]
    trace = read_trace(put(tmp_path, users=USERS, states="\n".join([*kept, ""])))
    write_trace(trace, tmp_path / "again")
    written = gzip.decompress((tmp_path / "again" / "states.csv.gz").read_bytes()).decode()
    expected = [1_048_576, 0, 7] if says_memory else [0, 0, 0]

    assert trace.columns[4].tolist() == expected
    assert read_trace(tmp_path / "again").columns[4].tolist() == expected
    assert written.splitlines()[0] == kept[0]
    assert ("ram_byte" in (tmp_path / "again" / "README.md").read_text()) is says_memory


@pytest.mark.parametrize(
    ("ram_byte", "says"), [("-1", "ram_byte = -1 is below 0"), ("1.5", "is not a whole number")]
)
def test_memory_that_cannot_be_is_refused_by_row(tmp_path, ram_byte, says):
    rows = f"a,0,1,1,0,0,0\na,4,1,1,0,0,{ram_byte}\nb,0,1,0,1,0,7\n"
    put(tmp_path, users=USERS, states=STATES.replace("\n", ",ram_byte\n") + rows)

    with pytest.raises(DataError, match=rf"states\.csv, row 3: .*{says}"):
        read_trace(tmp_path)


def test_intervals_are_eligible_and_outside_them_a_user_is_offline(tmp_path):
    rows = "a,86400,86410\na,86410,86420\na,86500,86500\na,90000,172800\n"
    put(tmp_path, users=INTERVAL_USERS, intervals=INTERVALS + rows)
    trace = read_trace(tmp_path)

    on, off = (True, True, True, 0.0), (False, False, False, 0.0)
    assert trace.span_s.tolist() == [86_400]
    assert changes(trace) == [(0, *on), (20, *off), (3600, *on)]


def test_anybodys_intervals_count_from_midnight_and_who_has_none_is_offline(tmp_path):
    users = "user,span_s\na,100\nb,50\nz,9\n"
    trace = read_trace(put(tmp_path, users=users, intervals=INTERVALS + "b,0,7\na,10,30\n"))
    on, off = (True, True, True, 0.0), (False, False, False, 0.0)

    assert trace.span_s.tolist() == [100, 50, 9]
    assert changes(trace) == [(0, *off), (10, *on), (30, *off)]
    assert changes(trace, 1) == [(0, *on), (7, *off)]
    assert changes(trace, 2) == [(0, *off)]


@pytest.mark.parametrize("offset_h", [-7, 5.5, 0, 14])
def test_a_users_time_zone_turns_the_record_to_the_users_midnight(tmp_path, offset_h):
    # In UTC from 12:00 to 13:00 of two days; local clocks show `offset_h` more.
    users = f"user,span_s,utc_offset_h\na,172800,{offset_h}\n"
    rows = "a,43200,46800\na,129600,133200\n"
    trace = read_trace(put(tmp_path, users=users, intervals=INTERVALS + rows))
    begins_h = (trace.times_s[trace.online] / 3600).tolist()

    assert [hour % 24 for hour in begins_h] == [(12 + offset_h) % 24] * 2


def test_states_have_time_zones_too(tmp_path):
    users = "user,span_s,utc_offset_h\na,86400,-1\n"
    put(tmp_path, users=users, states=STATES + "a,0,1,1,1,0\na,7200,0,0,0,0\n")

    assert [(t_s / 3600, online) for t_s, online, *_ in changes(read_trace(tmp_path))] == [
        (0, True),
        (1, False),
        (23, True),
    ]


def test_records_are_turned_to_begin_at_midnight(tmp_path):
    # The record begins at 06:00 of day 1 and is eligible from 07:00 to 08:00 and in its last hour,
    # from 05:00 to 06:00 of day 2.
    users = "user,trace_start_s,trace_end_s\na,108000,194400\n"
    put(tmp_path, users=users, intervals=INTERVALS + "a,111600,115200\na,190800,194400\n")
    hours = [(t_s / 3600, online) for t_s, online, *_ in changes(read_trace(tmp_path))]

    assert hours == [(0, False), (5, True), (6, False), (7, True), (8, False)]


def test_samples_hold_until_the_next_one(tmp_path):
    rows = [
        (0, "unplugged", "", "wifi"),
        (60, "charging", "", "not_reachable"),
        (120, "full", "", "wwan"),
        (180, "discharging", "", "wifi"),
        (240, "not_charging", "usb", "wifi"),
    ]
    trace = read_trace(put(tmp_path, states=samples(*rows)))

    assert (trace.user_ids, trace.span_s.tolist()) == (("7",), [300])
    assert changes(trace) == [
        (0, True, False, True, 0.0),
        (60, True, True, False, 0.0),
        (180, True, False, True, 0.0),
        (240, True, True, True, 0.0),
    ]


def test_missing_values_hold_from_the_sample_before_and_are_no_at_first(tmp_path):
    rows = [(0, "", "", ""), (60, "full", "", "wifi"), (120, "", "", ""), (180, "unknown", "", "")]
    trace = read_trace(put(tmp_path, states=samples(*rows)))

    assert changes(trace) == [(0, True, False, False, 0.0), (60, True, True, True, 0.0)]


def test_missing_values_do_not_come_from_another_user(tmp_path):
    text = samples((0, "full", "", "wifi")) + f"8,ios,{MIDNIGHT},0.5,,,,\n"

    assert changes(read_trace(put(tmp_path, states=text)), 1) == [(0, True, False, False, 0.0)]


def test_a_gap_holds_the_last_state_or_is_offline_after_ten_minutes(tmp_path):
    full = ("full", "", "wifi")
    put(tmp_path, states=samples((0, *full), (600, *full), (1201, *full)))

    assert [t_s for t_s, *_ in changes(read_trace(tmp_path))] == [0]
    assert changes(read_trace(tmp_path, unknown="offline")) == [
        (0, True, True, True, 0.0),
        (1200, False, True, True, 0.0),
        (1201, True, True, True, 0.0),
    ]


NATIVE = {"users": USERS, "states": STATES + "a,0,1,1,1,0\na,5,1,1,1,0\nb,0,1,1,1,0\n"}


def native(row: str) -> dict[str, str]:
    return NATIVE | {"states": NATIVE["states"] + row + "\n"}


def intervals(*rows: str) -> dict[str, str]:
    return {"users": INTERVAL_USERS, "intervals": INTERVALS + "".join(f"{row}\n" for row in rows)}


def overlap(row: str) -> dict[str, str]:
    return intervals("a,90000,90100", row)


def sampled(*rows: tuple[int, str, str, str]) -> dict[str, str]:
    return {"states": samples(*rows)}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (NATIVE | {"states": STATES}, "states.csv, row 2: the table is empty"),
        (NATIVE | {"states": ""}, "states.csv, row 1: the file is empty"),
        (NATIVE | {"users": "user,span_s\n"}, "users.csv, row 2: the table is empty"),
        ({"users": INTERVAL_USERS, "intervals": INTERVALS}, "intervals.csv, row 2: .* is empty"),
        ({"states": SAMPLES}, "states.csv, row 2: the table is empty"),
        ({"states": NATIVE["states"]}, "users.csv: no such file"),
        ({"users": USERS}, "no states.csv or intervals.csv"),
        (NATIVE | {"intervals": INTERVALS}, "holds intervals.csv, states.csv; name the file"),
        (NATIVE | {"states": "a,b\n1,2\n"}, "states.csv, row 1: unknown header 'a,b'; must be"),
        (NATIVE | {"users": "user,days\n"}, "users.csv, row 1: unknown header 'user,days'; must"),
        (NATIVE | {"users": "user,user\n"}, "users.csv, row 1: a column is named twice"),
        (NATIVE | {"users": USERS + "a,7\n"}, "users.csv, row 4: user 'a' is listed twice"),
        (NATIVE | {"users": USERS + "c,7\n"}, "users.csv, row 4: user 'c' has no row in states.c"),
        (NATIVE | {"users": "user,span_s\na,0\n"}, "users.csv, row 2: span_s = 0: must be at lea"),
        (NATIVE | {"users": ZONE + "a,10,15\n"}, "users.csv, row 2: utc_offset_h = 15 is beyond"),
        (NATIVE | {"users": ZONE + "a,10,nan\n"}, "users.csv, row 2: utc_offset_h = nan is beyond"),
        (native("c,0,1,1,1,0"), "states.csv, row 5: user 'c' has no span; list it in users.csv"),
        (native("b,1,1,1,1"), "states.csv, row 5: 5 fields under a header of 6"),
        (native("b,1.5,1,1,1,0"), "states.csv, row 5: t_s = '1.5' is not a whole number; round"),
        (native("b,1.0,1,1,1,0"), "states.csv, row 5: t_s = '1.0' is no plain whole number; write"),
        (native("b,nan,1,1,1,0"), "states.csv, row 5: t_s = 'nan' is not a whole number"),
        (native("b,noon,1,1,1,0"), "states.csv, row 5: t_s = 'noon' is not a number; correct it"),
        (native("b,9999999999999999,1,1,1,0"), "states.csv, row 5: t_s = .*at most 15"),
        (native("b,1,yes,1,1,0"), "states.csv, row 5: online = 'yes': must be one of 0, 1"),
        (native("b,1,1,1,1,nan"), r"states.csv, row 5: load = nan is outside \[0, 1\)"),
        (native("b,1,1,1,1,much"), "states.csv, row 5: load = 'much' is not a number"),
        (native("a,5,1,1,1,0"), "states.csv, row 5: a second state at second 5 of the same user"),
        (native("b,5,1,1,1,0"), "states.csv, row 5: second 5 is outside the user's span of 5 s"),
        (native("b,-1,1,1,1,0"), "states.csv, row 5: t_s = -1 is outside the user's span"),
        (native('b,1,1,1,1,"0'), "states.csv, row 5: is not CSV"),
        (overlap("a,90099,90200"), "row 3: starts at 90099 but .* ends at 90100: .*overlap; merge"),
        (overlap("a,90000,90100"), "intervals.csv, row 3: starts at 90000 .* overlap"),
        (overlap("a,88000,88100"), "row 3: starts at 88000, after 90000; sort the user's rows"),
        (intervals("a,86399,90000"), r"intervals.csv, row 2: \[86399, 90000\) is outside the use"),
        (intervals("a,90000,172801"), r"intervals.csv, row 2: \[90000, 172801\) is outside the u"),
        (intervals("a,90000,89999"), "intervals.csv, row 2: ends at 89999 before 90000"),
        (intervals("b,90000,90001"), "intervals.csv, row 2: user 'b' has no span"),
        (intervals("a,90000,nan"), "intervals.csv, row 2: end_s = 'nan' is not a whole number"),
        (
            intervals("a,90000,90001") | {"users": "user,trace_start_s,trace_end_s\na,5,5\n"},
            "users.csv, row 2: ends at 5, not after 5",
        ),
        (
            sampled((0, "full", "", "wifi"), (0, "full", "", "wifi")),
            "states.csv, row 3: t = 1444028400 after 1444028400; drop one",
        ),
        (
            sampled((9, "full", "", "wifi"), (0, "full", "", "wifi")),
            "states.csv, row 3: t = 1444028400 after 1444028409; sort the user's rows",
        ),
        (sampled((0, "fully", "", "wifi")), r"row 2: battery_state = 'fully': .*, \(empty\)"),
        (sampled((0, "full", "", "5G")), "states.csv, row 2: net = '5G': must be one"),
        (sampled((0, "full", "car", "")), "states.csv, row 2: plugged = 'car': must"),
    ],
)
def test_a_fault_is_named_with_its_file_and_row(tmp_path, files, says):
    with pytest.raises(DataError, match=says) as caught:
        read_trace(put(tmp_path, **files))

    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truncated_gzip_is_refused_with_the_row_where_it_ends(tmp_path):
    lines = [f"a,{t},{t % 2},1,1,{t % 97 / 100}" for t in range(5000)]
    whole = gzip.compress((STATES + "\n".join(lines)).encode())
    (tmp_path / "states.csv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "users.csv").write_text("user,span_s\na,5000\n")

    with pytest.raises(
        DataError, match=r"states\.csv\.gz, row [1-9]\d{2,3}: cannot be read .*end-"
    ):
        read_trace(tmp_path)


def test_what_is_no_gzip_or_not_there_or_there_twice_is_refused(tmp_path):
    put(tmp_path, **NATIVE)
    (tmp_path / "users.csv.gz").write_bytes(gzip.compress(USERS.encode()))
    (tmp_path / "odd.csv.gz").write_text(NATIVE["states"])

    for path, message in (
        (tmp_path, r"holds users\.csv and users\.csv\.gz; remove one"),
        (tmp_path / "odd.csv.gz", r"odd\.csv\.gz, row 1: cannot be read .*fetch the file"),
        (tmp_path / "nowhere", "nowhere: no such file"),
    ):
        with pytest.raises(DataError, match=message):
            read_trace(path)


def test_a_user_name_that_would_break_the_csv_is_not_written(tmp_path):
    put(tmp_path, users='user,span_s\n"a,b",9\n', states=STATES + '"a,b",0,1,1,1,0\n')
    trace = read_trace(tmp_path)

    with pytest.raises(DataError, match="user 'a,b' has a comma"):
        write_trace(trace, tmp_path / "out")
