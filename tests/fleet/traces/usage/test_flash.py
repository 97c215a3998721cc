"""Event logs of FLASH: the fixture is written by hand, the reference reads it second by second."""

import gzip
import json

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.flash import read_flash
from fleetsim.fleet.traces.usage.records import local_days
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import build_usage

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
BEGIN_S = 22 * 3600


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


def test_events_become_states_that_hold(tmp_path):
    trace = read(write(tmp_path / "t.json", {"3": log(*NIGHT)}))

    assert (trace.user_ids, trace.span_s.tolist()) == (("3",), [50])
    assert changes(trace) == [
        (0, False, False, False),
        (5, False, False, True),
        (9, True, False, True),
        (12, True, True, True),
        (31, False, True, True),
        (40, False, True, False),
        (41, True, True, False),
        (45, True, False, False),
    ]


def test_an_unknown_network_is_offline_only_where_that_is_asked_for(tmp_path):
    path = write(tmp_path / "t.json", {"0": log(*NIGHT)})
    offline = changes(read(path, unknown="offline", online="always"))

    assert [second for second, online, *_ in offline if not online] == [20]
    assert read(path, online="always").online.all()


def test_locked_and_unknown_offline_are_ready_when_flash_says_so(tmp_path):
    """FLASH's rule: ready while locked, charged and on Wi-Fi, an Unknown network being none."""
    trace = read(write(tmp_path / "t.json", {"0": log(*NIGHT)}), unknown="offline")
    ready, wifi, locked, charged = [], False, False, False
    by_second: dict[int, list[str]] = {int(time[-2:]): [] for time, _ in NIGHT}
    for time, event in NIGHT:
        by_second[int(time[-2:])].append(event.lower())
    for second in range(50):
        for event in by_second.get(second, ()):
            wifi = event == "wifi" if event in ("wifi", "unknown", "4g") else wifi
            locked = event == "screen_lock" if event in ("screen_lock", "screen_unlock") else locked
            if event.startswith("battery_charged"):
                charged = event == "battery_charged_on"
        ready.append(wifi and locked and charged)
    row = np.searchsorted(trace.times_s, np.arange(50), side="right") - 1

    assert (trace.online & trace.charging & trace.unmetered)[row].tolist() == ready
    assert sum(ready) == 15


def test_records_begin_at_the_midnight_of_the_clock_or_of_another_zone(tmp_path):
    records = read_flash(write(tmp_path / "t.json", {"0": log(*NIGHT)}), "hold", "locked")

    assert records.begin_s.tolist() == [BEGIN_S]
    # The record of 50 s is rotated by 22 h, or by 23 h: 79200 mod 50 = 82800 mod 50 = 0 seconds.
    assert local_days(records).times_s.tolist() == records.trace.times_s.tolist()
    moved = local_days(records, utc_offset_h=0.0025)  # 9 s: charging on Wi-Fi from 12 + 9 s on
    assert 21 in moved.times_s.tolist()


def test_lines_out_of_order_are_sorted_and_said(tmp_path):
    path = write(tmp_path / "t.json", {"0": log(*NIGHT[5:], *NIGHT[:5])})
    records = read_flash(path, "hold", "locked")

    assert changes(records.trace) == changes(read(write(path, {"0": log(*NIGHT)})))
    assert "1 logs were not in order of time" in " ".join(records.notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2020-01-31 22:00:00 wifi", "a line without a tab"),
        ("2020-02-31 22:00:00\twifi", "a time that does not exist"),
        ("2020-1-31 22:00:00\twifi", "a time that is not YYYY-mm-dd HH:MM:SS"),
        ("2020-01-31 22:00:00\tphone_exploded", "an unknown event"),
        ("2020-01-31 22:00:00\twifi", "a log that lasts no second"),
        ("", "a log that lasts no second"),
    ],
)
def test_a_log_that_cannot_be_read_is_left_out_and_counted(tmp_path, text, reason):
    path = write(tmp_path / "t.json", {"0": log(*NIGHT), "1": text})
    records = read_flash(path, "hold", "locked")

    assert records.trace.user_ids == ("0",)
    assert records.notes == ("1 of 2 phones", f"left out: 1 with {reason}")
    with pytest.raises(DataError, match=rf"none of 1 phones can be read \(1 with {reason}\)"):
        read_flash(write(path, {"1": text}), "hold", "locked")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "line 1: is not JSON"),
        ("[1]", "must be a JSON object of phones"),
        ("{}", "must be a JSON object of phones"),
        ('{"0": {"guid": "a"}}', "phone '0' has no text under messages"),
        ('{"0": {"messages": "", "messages": ""}}', "a key stands twice"),
        ('{"0": {"messages": NaN}}', "NaN is no JSON"),
        ("[" * 100_000, "is not JSON of this form"),
    ],
)
def test_a_file_of_another_form_is_refused_in_one_line(tmp_path, content, says):
    (tmp_path / "t.json").write_text(content)

    with pytest.raises(DataError, match=says) as caught:
        read_flash(tmp_path / "t.json", "hold", "locked")
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_packed_file_is_read_and_one_that_unpacks_too_far_is_refused(tmp_path, monkeypatch):
    plain = write(tmp_path / "t.json", {"0": log(*NIGHT)})
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert changes(read(packed)) == changes(read(plain))
    monkeypatch.setattr("fleetsim.fleet.traces.json_object._MOST_BYTE", 100)
    with pytest.raises(DataError, match="holds more than"):
        read(packed)


def test_sleepers_are_ready_at_night_for_a_third_of_their_time(tmp_path):
    """From 23 h to 7 h locked, on the charger and on Wi-Fi, five days long, each an hour apart."""
    phones = {}
    for phone in range(3):
        events = [("2020-02-03 00:00:00", "wifi"), ("2020-02-08 00:00:00", "55%")]
        for day in range(3, 8):
            evening = f"2020-02-{day:02} {21 + phone}:00:00"
            morning = f"2020-02-{day:02} {5 + phone:02}:00:00"
            events += [(evening, "screen_lock"), (evening, "battery_charged_on")]
            events += [(morning, "screen_unlock"), (morning, "battery_charged_off")]
        events += [("2020-02-03 00:00:00", "screen_lock")]
        events += [("2020-02-03 00:00:00", "battery_charged_on")]
        phones[str(phone)] = log(*sorted(events))
    trace = local_days(read_flash(write(tmp_path / "t.json", phones), "hold", "locked"))
    usage = build_usage(trace, seed=1, has_people=np.ones(3, dtype=bool), shift="none")
    ready = usage.eligible_schedule(charging_required=True, unmetered_required=True)
    clients = np.arange(3)
    share = ready.seconds_true(clients, 0, trace.span_s) / trace.span_s
    hours = [ready.is_at(clients, 3600.0 * hour + 1800).mean() for hour in range(24)]
    begins_s = ready.next_true_after(clients, 10 * 3600.0)
    lasts_s = ready.next_change_after(clients, begins_s) - begins_s

    assert share.tolist() == [1 / 3] * 3
    assert lasts_s.tolist() == [8 * 3600.0] * 3
    expected = [1.0] * 5 + [2 / 3, 1 / 3] + [0.0] * 14 + [1 / 3, 2 / 3, 1.0]
    assert hours == pytest.approx(expected)
