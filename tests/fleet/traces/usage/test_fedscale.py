"""Behaviour file of FedScale: values are read, code is refused."""

import gzip
import json
import os
import pickle
import tracemalloc

import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.fedscale import read_fedscale
from fleetsim.fleet.traces.usage.flash import read_flash
from fleetsim.fleet.traces.usage.plain_pickle import read_plain_pickle
from fleetsim.fleet.traces.usage.trace import Trace

# Available in [10, 30) and [30, 50), for no second at 60, and from 80 to the end.
LIFE = {
    "duration": 60,
    "inactive": [30, 50, 60, 100],
    "finish_time": 100,
    "active": [10, 30, 60, 80],
    "model": "SM-G611MT",
}
NOTHING = {"active": [], "inactive": [], "finish_time": 0, "duration": 0}
MOST = 1 << 20


def dumped(tmp_path, what: object, protocol: int = 4):
    path = tmp_path / "client_behave_trace"
    path.write_bytes(pickle.dumps(what, protocol=protocol))
    return path


@pytest.mark.parametrize(("change", "reason"), [
    ({"inactive": [30]}, "lists of different lengths"),
    ({"inactive": None}, "no lists active and inactive"),
    ({"finish_time": 99}, "times that fall or leave the record"),
    ({"active": [10, 29, 60, 80], "duration": 61}, "times that fall or leave the record"),
    ({"active": [10, 30.0, 60, 80]}, "a time that is not whole seconds"),
    ({"active": [10, True, 60, 80]}, "a time that is not whole seconds"),
    ({"duration": 61}, "a duration that is not the sum of its intervals"),
    (NOTHING, "a record that lasts no second"),
])  # fmt: skip
def test_a_client_that_contradicts_itself_is_left_out_and_counted(tmp_path, change, reason):
    records = read_fedscale(dumped(tmp_path, {1: LIFE, 2: LIFE | change}))

    assert records.notes == ("1 of 2 clients", f"left out: 1 with {reason}")
    with pytest.raises(DataError, match=f"none of 1 clients can be read .1 with {reason}"):
        read_fedscale(dumped(tmp_path, {2: LIFE | change}))


def test_a_place_in_the_memo_takes_no_memory(tmp_path):
    """`pickle.Unpickler` makes room for 2^29 places first, which are 4 GiB."""
    path = tmp_path / "traces.pkl"
    path.write_bytes(b"\x80\x04K\x01r" + (2**28).to_bytes(4, "little") + b".")

    tracemalloc.start()
    value = read_plain_pickle(path, most_byte=100)
    _, peak_byte = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert value == 1
    assert peak_byte < 1_000_000


class Malicious:
    """Runs a command where it is unpickled."""

    def __init__(self, target) -> None:
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_a_command_is_refused_and_runs_nothing(tmp_path, protocol):
    target = tmp_path / "owned"
    path = dumped(tmp_path, {1: LIFE | {"model": Malicious(target)}}, protocol)

    with pytest.raises(DataError, match=rf"^{path}: asks for .*nothing is executed$"):
        read_fedscale(path)
    assert not target.exists()
    # The same bytes do run where they are unpickled.
    pickle.loads(path.read_bytes())
    assert target.exists()


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is not a whole pickle"),
    (pickle.dumps({1: LIFE})[:-9], "is not a whole pickle"),
    (pickle.dumps((1, 2)), "asks for TUPLE2"),
    (pickle.dumps(b"x"), "asks for SHORT_BINBYTES"),
    (b"cos\nsystem\n.", "asks for GLOBAL"),
    (b"(ios\nsystem\n.", "asks for INST"),
    (b"]" * 40 + b"a" * 39 + b".", "nested more than 16 deep"),
    (b"(" * 40 + b".", "nested more than 16 deep"),
    (b"h\x05.", "refers to a value 5"),
    (b"a.", "uses a value that is not there"),
    (b"}]K\x01s.", "has a list for a key"),
    (pickle.dumps({10**5000: 1}), "has a key of 16610 bit"),
    (b"K\x01K\x02a.", "appends to what is not a list"),
    (b"e.", "lacks a mark"),
    (b"K\x01K\x02.", "more or less than one value"),
    (bytes(MOST + 1), "is larger than 1 MiB; split it"),
])  # fmt: skip
def test_a_pickle_that_is_not_plain_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "p").write_bytes(content)

    with pytest.raises(DataError, match=rf"^{tmp_path}/p: .*{message}.*$"):
        read_plain_pickle(tmp_path / "p", most_byte=MOST)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back_as_they_were(tmp_path, protocol):
    shared = [1, -2, 300, 70_000, 1 << 40, 1 << 300, -0.5, "text \u00e9", None, True, False, {}]
    value = {"a": shared, 7: [shared, {"b": [[]]}], 1.5: {}}

    assert read_plain_pickle(dumped(tmp_path, value, protocol), most_byte=MOST) == value


ITSELF: dict[str, object] = {}
ITSELF["self"] = ITSELF


@pytest.mark.parametrize(("what", "message"), [
    (ITSELF, "none of 1 clients can be read"),
    ({3: LIFE, "3": LIFE}, "client '3' is there twice"),
    ({1: 2}, "client 1 is no dict"),
    ([], "must hold a dict of clients"),
    ({}, "must hold a dict of clients"),
])  # fmt: skip
def test_a_pickle_of_another_form_is_refused(tmp_path, what, message):
    with pytest.raises(DataError, match=message):
        read_fedscale(dumped(tmp_path, what))


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
