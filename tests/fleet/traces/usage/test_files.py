"""Usage traces in CSV files, and import: whole or not at all; every option has an effect."""

import gzip
import pickle

import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.formats import ImportOptions, import_any
from fleetsim.fleet.traces.usage.files import read_trace, write_trace
from fleetsim.fleet.traces.usage.trace import Trace
from tests.fleet.traces.usage.test_fedscale import LIFE, NIGHT, log
from tests.fleet.traces.usage.test_fedscale import write as write_logs

STATES = "user,t_s,online,charging,unmetered,load\n"
USERS = "user,span_s\na,10\nb,5\n"
ZONE = "user,span_s,utc_offset_h\n"
INTERVALS = "user,start_s,end_s\n"
EMPTY_SPAN = "user,trace_start_s,trace_end_s\na,5,5\n"
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


def test_states_are_read_in_the_order_of_users_and_written_with_bytes_that_repeat(tmp_path):
    rows = "b,0,1,0,1,0\na,0,1,1,0,0.1\na,4,0,0,0,1e-05\n\n"
    trace = read_trace(put(tmp_path, users=USERS, states=STATES + rows))
    write_trace(trace, tmp_path / "one")
    write_trace(read_trace(tmp_path / "one"), tmp_path / "two")

    for each in (trace, read_trace(tmp_path / "two")):
        assert (each.user_ids, each.span_s.tolist()) == (("a", "b"), [10, 5])
        assert changes(each) == [(0, True, True, False, 0.1), (4, False, False, False, 1e-05)]
        assert changes(each, 1) == [(0, True, False, True, 0.0)]
    names = ["README.md", "states.csv.gz", "users.csv.gz"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == names
    for name in names[1:]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("has_memory", [True, False])
def test_memory_of_apps_is_read_and_written_where_it_is_stated(tmp_path, has_memory):
    rows = ["a,0,1,1,0,0.5,1048576", "a,4,0,0,0,0,0", "b,0,1,0,1,0,7"]
    lines = [f"{STATES.strip()},ram_byte", *rows]
    kept = lines if has_memory else [line.rpartition(",")[0] for line in lines]
    trace = read_trace(put(tmp_path, users=USERS, states="\n".join([*kept, ""])))
    write_trace(trace, tmp_path / "again")
    written = gzip.decompress((tmp_path / "again" / "states.csv.gz").read_bytes()).decode()
    expected = [1_048_576, 0, 7] if has_memory else [0, 0, 0]

    assert trace.columns[4].tolist() == expected
    assert read_trace(tmp_path / "again").columns[4].tolist() == expected
    assert written.splitlines()[0] == kept[0]
    assert ("ram_byte" in (tmp_path / "again" / "README.md").read_text()) is has_memory


def test_who_has_no_interval_is_offline(tmp_path):
    users = "user,span_s\na,100\nz,9\n"
    trace = read_trace(put(tmp_path, users=users, intervals=INTERVALS + "a,10,20\n"))

    assert trace.span_s.tolist() == [100, 9]
    assert changes(trace, 1) == [(0, False, False, False, 0.0)]


def test_samples_hold_until_the_next_one(tmp_path):
    rows = [(0, "unplugged", "", "wifi"), (60, "charging", "", "not_reachable")]
    rows += [(120, "full", "", "wwan"), (180, "discharging", "", "wifi")]
    trace = read_trace(put(tmp_path, states=samples(*rows, (240, "not_charging", "usb", "wifi"))))
    states = [(t_s, charging, wifi) for t_s, _, charging, wifi, _ in changes(trace)]

    assert (trace.user_ids, trace.span_s.tolist(), all(trace.online)) == (("7",), [300], True)
    assert states == [(0, False, True), (60, True, False), (180, False, True), (240, True, True)]


NATIVE = {"users": USERS, "states": STATES + "a,0,1,1,1,0\na,5,1,1,1,0\nb,0,1,1,1,0\n"}


def native(row: str) -> dict[str, str]:
    return NATIVE | {"states": NATIVE["states"] + row + "\n"}


def with_ram(ram_byte: str) -> dict[str, str]:
    rows = f"a,0,1,1,0,0,0\na,4,1,1,0,0,{ram_byte}\nb,0,1,0,1,0,7\n"
    return {"users": USERS, "states": STATES.replace("\n", ",ram_byte\n") + rows}


def intervals(*rows: str) -> dict[str, str]:
    return {"users": INTERVAL_USERS, "intervals": INTERVALS + "".join(f"{row}\n" for row in rows)}


def overlap(row: str) -> dict[str, str]:
    return intervals("a,90000,90100", row)


FULL = (0, "full", "", "wifi")


def sampled(*rows: tuple[int, str, str, str]) -> dict[str, str]:
    return {"states": samples(*rows)}


@pytest.mark.parametrize(("files", "message"), [
    (NATIVE | {"states": STATES}, "states.csv, row 2: the table is empty"),
    ({"users": USERS}, "no states.csv or intervals.csv"),
    (NATIVE | {"intervals": INTERVALS}, "holds intervals.csv, states.csv; name the file"),
    (NATIVE | {"states": "a,b\n1,2\n"}, "states.csv, row 1: unknown header 'a,b'; must be"),
    (NATIVE | {"users": "user,days\n"}, "users.csv, row 1: unknown header 'user,days'; must"),
    (NATIVE | {"users": "user,user\n"}, "users.csv, row 1: a column is named twice"),
    (NATIVE | {"users": USERS + "a,7\n"}, "users.csv, row 4: user 'a' is listed twice"),
    (NATIVE | {"users": USERS + "c,7\n"}, "users.csv, row 4: user 'c' has no row in states.c"),
    (NATIVE | {"users": "user,span_s\na,0\n"}, "users.csv, row 2: span_s = 0: must be at lea"),
    (NATIVE | {"users": ZONE + "a,10,15\n"}, "users.csv, row 2: utc_offset_h = 15 is beyond"),
    (native("c,0,1,1,1,0"), "states.csv, row 5: user 'c' has no span; list it in users.csv"),
    (native("b,1.5,1,1,1,0"), "states.csv, row 5: t_s = '1.5' is not a whole number; round"),
    (native("b,1.0,1,1,1,0"), "states.csv, row 5: t_s = '1.0' is no plain whole number; write"),
    (native("b,noon,1,1,1,0"), "states.csv, row 5: t_s = 'noon' is not a number; correct it"),
    (native("b,1,yes,1,1,0"), "states.csv, row 5: online = 'yes': must be one of 0, 1"),
    (with_ram("-1"), "states.csv, row 3: ram_byte = -1 is below 0"),
    (with_ram("1.5"), "states.csv, row 3: ram_byte = '1.5' is not a whole number"),
    (native("b,1,1,1,1,nan"), r"states.csv, row 5: load = nan is outside \[0, 1\)"),
    (native("a,4,1,1,1,0"), "states.csv, row 5: second 4 after 5; sort the user's rows"),
    (NATIVE | {"states": STATES + "a,1,1,1,1,0\n"}, "row 2: the first state of user 'a' is at sec"),
    (native("a,5,1,1,1,0"), "states.csv, row 5: a second state at second 5 of the same user"),
    (native("b,5,1,1,1,0"), "states.csv, row 5: second 5 is outside the user's span of 5 s"),
    (native("b,-1,1,1,1,0"), "states.csv, row 5: t_s = -1 is outside the user's span"),
    (native('b,1,1,1,1,"0'), "states.csv, row 5: is not CSV"),
    (overlap("a,90099,90200"), "row 3: starts at 90099 but .* ends at 90100: .*overlap; merge"),
    (overlap("a,88000,88100"), "row 3: starts at 88000, after 90000; sort the user's rows"),
    (intervals("a,86399,90000"), r"intervals.csv, row 2: \[86399, 90000\) is outside the use"),
    (intervals("a,90000,89999"), "intervals.csv, row 2: ends at 89999 before 90000"),
    (overlap("") | {"users": EMPTY_SPAN}, "users.csv, row 2: ends at 5, not after 5"),
    (sampled(FULL, FULL), "states.csv, row 3: t = 1444028400 after 1444028400; drop one"),
    (sampled((9, *FULL[1:]), FULL), "states.csv, row 3: t = .* after .*; sort the user's rows"),
    (sampled((0, "fully", "", "wifi")), r"row 2: battery_state = 'fully': .*, \(empty\)"),
])  # fmt: skip
def test_a_fault_is_named_with_its_file_and_row(tmp_path, files, message):
    with pytest.raises(DataError, match=rf"^{tmp_path}.*{message}.*$"):
        read_trace(put(tmp_path, **files))


def test_what_is_no_gzip_or_there_twice_is_refused(tmp_path):
    put(tmp_path, **NATIVE)
    (tmp_path / "users.csv.gz").write_bytes(gzip.compress(USERS.encode()))
    (tmp_path / "odd.csv.gz").write_text(NATIVE["states"])

    with pytest.raises(DataError, match=r"holds users\.csv and users\.csv\.gz; remove one"):
        read_trace(tmp_path)
    with pytest.raises(DataError, match=r"odd\.csv\.gz, row 1: cannot be read .*fetch the file"):
        read_trace(tmp_path / "odd.csv.gz")


def test_a_user_name_that_would_break_the_csv_is_not_written(tmp_path):
    put(tmp_path, users='user,span_s\n"a,b",9\n', states=STATES + '"a,b",0,1,1,1,0\n')
    trace = read_trace(tmp_path)

    with pytest.raises(DataError, match="user 'a,b' has a comma"):
        write_trace(trace, tmp_path / "out")


HOUR_S, DAY_S = 3_600, 86_400


def test_import_writes_the_native_form_and_nothing_else(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    put(source, **intervals("a,90000,90100"))
    import_any("flhetbench", source, tmp_path / "new" / "mine")
    trace, same = read_trace(source), read_trace(tmp_path / "new" / "mine")

    assert changes(same) == changes(trace)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]


def test_whole_days_keep_the_hour_of_the_day_in_every_lap(tmp_path):
    # 60 h from 06:00 on, available from 07:00 to 08:00 of each of the three days.
    users = "user,trace_start_s,trace_end_s\na,21600,237600\nshort,0,80000\n"
    rows = "a,25200,28800\na,111600,115200\na,198000,201600\n"
    put(tmp_path, users=users, intervals=INTERVALS + rows)
    notes = import_any("flhetbench", tmp_path, tmp_path / "new", ImportOptions(whole_days=True))
    trace = read_trace(tmp_path / "new")

    assert (trace.user_ids, trace.span_s.tolist()) == (("a",), [2 * DAY_S])
    assert [t_s % DAY_S // HOUR_S for t_s, online, *_ in changes(trace) if online] == [7, 7]
    put(tmp_path, **NATIVE)
    with pytest.raises(DataError, match="no record of a whole day"):
        import_any(
            "states", tmp_path / "states.csv", tmp_path / "no", ImportOptions(whole_days=True)
        )
    assert not (tmp_path / "no").exists()
    assert notes == ("left out: 1 with less than a whole day",)
    assert "left out: 1 with less than a whole day" in (tmp_path / "new/README.md").read_text()


def test_a_time_zone_moves_the_hours_of_what_is_imported(tmp_path):
    put(tmp_path, **(intervals("a,90000,93600")))  # from 01:00 to 02:00
    import_any("flhetbench", tmp_path, tmp_path / "new", ImportOptions(utc_offset_h=-3.0))

    assert [t_s / HOUR_S for t_s, *_ in changes(read_trace(tmp_path / "new"))] == [0, 22, 23]


def test_event_logs_and_behaviour_files_are_imported(tmp_path):
    path = write_logs(tmp_path / "state_traces.json", {"5": log(*NIGHT)})
    (tmp_path / "behaviour").write_bytes(pickle.dumps({3: LIFE}))

    assert import_any("flash", path, tmp_path / "phones") == ("1 of 1 phones",)
    assert import_any("fedscale", tmp_path / "behaviour", tmp_path / "clients") == (
        "1 of 1 clients",
    )
    assert read_trace(tmp_path / "phones").user_ids == ("5",)
    assert [t_s for t_s, *_ in changes(read_trace(tmp_path / "clients"))] == [0, 10, 50, 80]


@pytest.mark.parametrize(("format_", "given", "message"), [
    ("states", {"unknown": "hold"}, "--unknown means nothing to states; .* extrasensory or"),
    ("rates", {"whole_days": True}, "--whole-days means nothing to rates; .* as table or"),
    ("rates", {"app": "B"}, "--app .* rates; .* irish-5g"),
    ("rates", {"time": "t"}, "--time means nothing to rates; .* table"),
    ("flash", {"utc_offset_h": float("nan")}, "--utc-offset-h nan is beyond"),
])  # fmt: skip
def test_an_option_that_means_nothing_to_a_format_is_refused(tmp_path, format_, given, message):
    with pytest.raises(ScenarioError, match=message):
        import_any(format_, tmp_path, tmp_path / "new", ImportOptions(**given))


@pytest.mark.parametrize(
    ("name", "format_"), [("t.json.gz", "flash"), ("behaviour.pkl", "fedscale")]
)
def test_a_scenario_that_names_what_must_be_imported_says_so(tmp_path, name, format_):
    (tmp_path / name).write_text("{}")

    with pytest.raises(DataError, match=f"convert it first: fleetsim trace import {format_} "):
        read_trace(tmp_path / name)
