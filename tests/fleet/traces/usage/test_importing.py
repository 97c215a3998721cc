"""Import: any format becomes fleetsim's own, whole or not at all; every option has an effect."""

import pickle

import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.formats import TableOptions, import_any
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.importing import ImportOptions
from tests.fleet.traces.usage.test_fedscale import LIFE
from tests.fleet.traces.usage.test_files import INTERVALS, NATIVE, changes, intervals, put
from tests.fleet.traces.usage.test_flash import NIGHT, log
from tests.fleet.traces.usage.test_flash import write as write_logs

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


@pytest.mark.parametrize(
    ("format_", "given", "message"),
    [
        ("states", {"unknown": "hold"}, "--unknown means nothing to states; .* extrasensory or"),
        ("table", {"online": "always"}, "--online means nothing to table"),
        ("rates", {"whole_days": True}, "--whole-days means nothing to rates; .* as table or"),
        ("rates", {"app": "B"}, "--app .* rates; .* irish-5g"),
        ("rates", {"columns": TableOptions(time="t")}, "--time means nothing to rates; .* table"),
        ("flash", {"utc_offset_h": float("nan")}, "--utc-offset-h nan is beyond"),
    ],
)
def test_an_option_that_means_nothing_to_a_format_is_refused(tmp_path, format_, given, message):
    others = {name: given[name] for name in given if name in ("app", "columns")}
    options = ImportOptions(**{name: given[name] for name in given if name not in others})

    with pytest.raises(ScenarioError, match=message):
        import_any(format_, tmp_path, tmp_path / "new", options, **others)


@pytest.mark.parametrize(
    ("name", "format_"), [("t.json.gz", "flash"), ("behaviour.pkl", "fedscale")]
)
def test_a_scenario_that_names_what_must_be_imported_says_so(tmp_path, name, format_):
    (tmp_path / name).write_text("{}")

    with pytest.raises(DataError, match=f"convert it first: fleetsim trace import {format_} "):
        read_trace(tmp_path / name)
