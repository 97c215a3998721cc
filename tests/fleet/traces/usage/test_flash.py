"""Event logs of FLASH: the fixture is written by hand, the reference reads it second by second."""

import gzip
import json

import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.flash import read_flash
from fleetsim.fleet.traces.usage.trace import Trace

NIGHT = [
    ("2020-01-31 22:00:00", "87.0%"),
    ("2020-01-31 22:00:05", "wifi"),
    ("2020-01-31 22:00:09", "screen_off"),
    ("2020-01-31 22:00:09", "screen_lock"),
    ("2020-01-31 22:00:12", "battery_charged_on"),
    ("2020-01-31 22:00:20", "Unknown"),
    ("2020-01-31 22:00:24", "WIFI"),
    ("2020-01-31 22:00:30", "screen_on"),
    ("2020-01-31 22:00:31", "screen_unlock"),
    ("2020-01-31 22:00:40", "4G"),
    ("2020-01-31 22:00:41", "screen_lock"),
    ("2020-01-31 22:00:45", "battery_charged_off"),
    ("2020-01-31 22:00:50", "100%"),
]


def log(*events: tuple[str, str]) -> str:
    return "".join(f"{time}\t{event}\n" for time, event in events)


def write(path, phones: dict[str, str]):
    whole = {i: {"guid": f"g{i}", "model": "m", "messages": text} for i, text in phones.items()}
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def read(path, unknown="hold", online="locked") -> Trace:
    """The trace with seconds counted from the first event on."""
    return read_flash(path, unknown, online).trace


def changes(trace: Trace) -> list[tuple[int, bool, bool, bool]]:
    columns = (trace.times_s, trace.online, trace.charging, trace.unmetered)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_events_in_any_order_become_states_that_hold(tmp_path):
    path = write(tmp_path / "t.json", {"3": log(*NIGHT[5:], *NIGHT[:5])})
    records = read_flash(path, "hold", "locked")

    assert "1 logs were not in order of time" in " ".join(records.notes)
    assert (records.trace.user_ids, records.trace.span_s.tolist()) == (("3",), [50])
    assert changes(records.trace) == [
        (0, False, False, False),
        (5, False, False, True),
        (9, True, False, True),
        (12, True, True, True),
        (31, False, True, True),
        (40, False, True, False),
        (41, True, True, False),
        (45, True, False, False),
    ]
    assert read(path, online="always").online.all()
    offline = read(path, unknown="offline", online="always")
    assert [second for second, online, *_ in changes(offline) if not online] == [20]


@pytest.mark.parametrize(("text", "reason"), [
    ("2020-01-31 22:00:00 wifi", "a line without a tab"),
    ("2020-02-31 22:00:00\twifi", "a time that does not exist"),
    ("2020-1-31 22:00:00\twifi", "a time that is not YYYY-mm-dd HH:MM:SS"),
    ("2020-01-31 22:00:00\tphone_exploded", "an unknown event"),
    ("2020-01-31 22:00:00\twifi", "a log that lasts no second"),
    ("", "a log that lasts no second"),
])  # fmt: skip
def test_a_log_that_cannot_be_read_is_left_out_and_counted(tmp_path, text, reason):
    path = write(tmp_path / "t.json", {"0": log(*NIGHT), "1": text})
    records = read_flash(path, "hold", "locked")

    assert records.trace.user_ids == ("0",)
    assert records.notes == ("1 of 2 phones", f"left out: 1 with {reason}")
    with pytest.raises(DataError, match=rf"none of 1 phones can be read \(1 with {reason}\)"):
        read_flash(write(path, {"1": text}), "hold", "locked")


@pytest.mark.parametrize(("content", "message"), [
    ("{", "line 1: is not JSON"),
    ("[1]", "must be a JSON object of phones"),
    ('{"0": {"guid": "a"}}', "phone '0' has no text under messages"),
    ('{"0": {"messages": "", "messages": ""}}', "a key stands twice"),
    ('{"0": {"messages": NaN}}', "NaN is no JSON"),
    ("[" * 100_000, "is not JSON of this form"),
])  # fmt: skip
def test_a_file_of_another_form_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "t.json").write_text(content)

    with pytest.raises(DataError, match=rf"^{tmp_path}/t\.json.*{message}.*$"):
        read_flash(tmp_path / "t.json", "hold", "locked")


def test_a_packed_file_is_read_and_one_that_unpacks_too_far_is_refused(tmp_path, monkeypatch):
    plain = write(tmp_path / "t.json", {"0": log(*NIGHT)})
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert changes(read(packed)) == changes(read(plain))
    monkeypatch.setattr("fleetsim.fleet.traces.usage.flash._MOST_BYTE", 100)
    with pytest.raises(DataError, match="holds more than"):
        read(packed)
