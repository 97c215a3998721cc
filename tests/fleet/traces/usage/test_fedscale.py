"""Behaviour file of FedScale: values are read, code is refused."""

import os
import pickle
import tracemalloc

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.usage.fedscale import read_fedscale
from fleetsim.fleet.traces.usage.plain_pickle import read_plain_pickle
from fleetsim.fleet.traces.usage.records import local_days
from fleetsim.fleet.usage.usage import build_usage

# Available in [10, 30) and [30, 50), for no second at 60, and from 80 to the end.
LIFE = {
    "duration": 60,
    "inactive": [30, 50, 60, 100],
    "finish_time": 100,
    "active": [10, 30, 60, 80],
    "model": "SM-G611MT",
}
MOST = 1 << 20


def dumped(tmp_path, what: object, protocol: int = 4):
    path = tmp_path / "client_behave_trace"
    path.write_bytes(pickle.dumps(what, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_active_and_inactive_times_are_the_edges_of_intervals(tmp_path, protocol):
    records = read_fedscale(dumped(tmp_path, {3: LIFE, 17: LIFE | {"duration": 60}}, protocol))
    trace = records.trace

    assert (trace.user_ids, trace.span_s.tolist()) == (("3", "17"), [100, 100])
    assert trace.times_s.tolist() == [0, 10, 50, 80] * 2
    assert trace.online.tolist() == [False, True, False, True] * 2
    assert trace.charging.tolist() == trace.unmetered.tolist() == trace.online.tolist()
    assert records.notes == ("2 of 2 clients",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"inactive": [30]}, "lists of different lengths"),
        ({"inactive": None}, "no lists active and inactive"),
        ({"finish_time": 99}, "times that fall or leave the record"),
        ({"active": [10, 29, 60, 80], "duration": 61}, "times that fall or leave the record"),
        ({"active": [10, 30.0, 60, 80]}, "a time that is not whole seconds"),
        ({"active": [10, True, 60, 80]}, "a time that is not whole seconds"),
        ({"duration": 61}, "a duration that is not the sum of its intervals"),
        (
            {"active": [], "inactive": [], "finish_time": 0, "duration": 0},
            "a record that lasts no second",
        ),
    ],
)
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

    with pytest.raises(DataError, match=r"asks for .*nothing is executed") as caught:
        read_fedscale(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not target.exists()
    # The same bytes do run where they are unpickled.
    pickle.loads(path.read_bytes())
    assert target.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a whole pickle"),
        (b"words", "is not a whole pickle"),
        (pickle.dumps({1: LIFE})[:-9], "is not a whole pickle"),
        (pickle.dumps((1, 2)), "asks for TUPLE2"),
        (pickle.dumps(b"x"), "asks for SHORT_BINBYTES"),
        (b"cos\nsystem\n.", "asks for GLOBAL"),
        (b"(ios\nsystem\n.", "asks for INST"),
        (b"\x82\x01.", "asks for EXT1"),
        (b"Pid\n.", "asks for PERSID"),
        (b"]" * 40 + b"a" * 39 + b".", "nested more than 16 deep"),
        (b"(" * 40 + b".", "nested more than 16 deep"),
        (b"h\x05.", "refers to a value 5"),
        (b"a.", "uses a value that is not there"),
        (b"}]K\x01s.", "has a list for a key"),
        (pickle.dumps({10**5000: 1}), "has a key of 16610 bit"),
        (b"K\x01K\x02a.", "appends to what is not a list"),
        (b"e.", "lacks a mark"),
        (b"K\x01K\x02.", "more or less than one value"),
        (b".", "more or less than one value"),
    ],
)
def test_a_pickle_that_is_not_plain_is_refused_in_one_line(tmp_path, content, says):
    (tmp_path / "p").write_bytes(content)

    with pytest.raises(DataError, match=says) as caught:
        read_plain_pickle(tmp_path / "p", most_byte=MOST)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back_as_they_were(tmp_path, protocol):
    shared = [1, -2, 300, 70_000, 1 << 40, 1 << 300, -0.5, "text \u00e9", None, True, False, {}]
    value = {"a": shared, 7: [shared, {"b": [[]]}], 1.5: {}}

    assert read_plain_pickle(dumped(tmp_path, value, protocol), most_byte=MOST) == value


def test_a_pickle_that_holds_itself_ends_in_an_error_not_in_a_loop(tmp_path):
    value: dict[str, object] = {}
    value["self"] = value
    with pytest.raises(DataError, match=r"is no dict|none of 1 clients"):
        read_fedscale(dumped(tmp_path, value))


def test_a_client_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match="client '3' is there twice"):
        read_fedscale(dumped(tmp_path, {3: LIFE, "3": LIFE}))


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    with pytest.raises(DataError, match="is larger than"):
        read_plain_pickle(dumped(tmp_path, {1: LIFE}), most_byte=10)


@pytest.mark.parametrize("what", [[], {}, {1: 2}, 5])
def test_a_pickle_of_another_form_is_refused(tmp_path, what):
    with pytest.raises(DataError, match=r"must hold a dict of clients|is no dict"):
        read_fedscale(dumped(tmp_path, what))


def test_share_lengths_and_hours_are_those_of_the_lists(tmp_path):
    """Client i is available from i to i + 8 o'clock of four days: a third of its time."""
    hour_s, day_s = 3600, 86_400
    lives = {}
    for client in range(16):
        active = [day * day_s + client * hour_s for day in range(4)]
        inactive = [begin_s + 8 * hour_s for begin_s in active]
        life = {"active": active, "inactive": inactive, "finish_time": 4 * day_s}
        lives[client] = life | {"duration": 32 * hour_s, "model": "m"}
    trace = local_days(read_fedscale(dumped(tmp_path, lives)))
    usage = build_usage(trace, seed=1, has_people=np.ones(16, dtype=bool), shift="none")
    schedule, clients = usage.schedule_where(usage.states.online), np.arange(16)
    share = schedule.seconds_true(clients, 0, trace.span_s) / trace.span_s
    hours = [schedule.is_at(clients, hour * hour_s + 60.0).sum() for hour in range(24)]

    assert share.tolist() == [1 / 3] * 16
    # At h o'clock those are there who came at h - 7 to h.
    expected = [len([c for c in range(16) if c <= hour < c + 8]) for hour in range(24)]
    assert hours == expected
    ends_s = schedule.next_change_after(clients, np.array([c * float(hour_s) for c in usage.user]))
    assert (ends_s - usage.user * hour_s).tolist() == [8.0 * hour_s] * 16
