"""Published usage traces as read, against counts of their rows; the slow tests of validation read
them whole."""

import gzip
from itertools import islice

import numpy as np
import pytest

from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.usage.files import main_file, read_records, read_trace
from fleetsim.fleet.traces.usage.trace import is_change
from fleetsim.validation.people import usage_of


def test_flhetbench_sums_to_the_seconds_of_its_intervals(real_trace):
    home = real_trace("flash-flhetbench")
    table = read_csv_table(home / "intervals.csv.gz")
    trace = read_trace(home)

    assert (trace.num_users, table.num_rows) == (710, 14_139)
    by_hand_s = int((table.whole_numbers("end_s") - table.whole_numbers("start_s")).sum())
    assert int((trace.lasts_s * trace.online).sum()) == by_hand_s


def test_flhetbench_has_the_hours_of_its_own_rows(real_trace):
    """Share of people available at half past every hour, by their intervals as they stand."""
    home = real_trace("flash-flhetbench")
    users, rows = read_csv_table(home / "users.csv.gz"), read_csv_table(home / "intervals.csv.gz")
    begin_s, end_s = users.whole_numbers("trace_start_s"), users.whole_numbers("trace_end_s")
    number = {user: at for at, user in enumerate(users.columns["user"])}
    owner = np.array([number[user] for user in rows.columns["user"]])
    start_s, stop_s = rows.whole_numbers("start_s"), rows.whole_numbers("end_s")
    trace = read_trace(home)
    usage = usage_of(trace)
    client_of = np.argsort(usage.user)

    by_rows, by_reader = np.zeros(24), np.zeros(24)
    for user in range(trace.num_users):
        at_s = np.arange(begin_s[user] // 3600 * 3600 + 1800, end_s[user], 3600)
        at_s = at_s[at_s >= begin_s[user]]
        mine = owner == user
        inside = (start_s[mine] <= at_s[:, None]) & (at_s[:, None] < stop_s[mine])
        since_midnight_s = at_s - begin_s[user] // 86_400 * 86_400
        clients = np.full(at_s.size, client_of[user])
        read = usage.state_at(clients, since_midnight_s.astype(float)).online
        np.add.at(by_rows, at_s // 3600 % 24, inside.any(axis=1))
        np.add.at(by_reader, at_s // 3600 % 24, read)

    assert by_reader.tolist() == by_rows.tolist()
    assert by_reader[[1, 2, 3, 4]].sum() > 1.5 * by_reader[[17, 18, 19, 20]].sum()


@pytest.fixture
def some_people(real_trace, tmp_path):
    """Samples of two of the people of ExtraSensory."""
    with gzip.open(real_trace("extrasensory") / "states-dev.csv.gz", "rt") as file:
        header, *lines = islice(file, 20_000)
    names = list(dict.fromkeys(line.split(",", 1)[0] for line in lines))
    kept = tuple(f"{name}," for name in names[:2])
    assert len(names) > 2
    (tmp_path / "states.csv").write_text(
        header + "".join(line for line in lines if line.startswith(kept))
    )
    return tmp_path


def test_extrasensory_is_on_the_charger_at_each_sample_that_says_so(some_people):
    table, usage = read_csv_table(some_people / "states.csv"), usage_of(read_trace(some_people))
    user, local_s = table.whole_numbers("user"), table.whole_numbers("t") - 7 * 3600
    midnight_s = {one: local_s[user == one][0] // 86_400 * 86_400 for one in np.unique(user)}
    names = read_trace(some_people).user_ids
    client_of = {int(names[who]): client for client, who in enumerate(usage.user)}
    said = {"charging": True, "full": True, "unplugged": False, "discharging": False}
    battery_state = table.columns["battery_state"]
    at = np.array([state in said for state in battery_state])
    clients = np.array([client_of[one] for one in user[at]])
    since_s = local_s[at] - np.array([midnight_s[one] for one in user[at]])
    charging = usage.state_at(clients, since_s.astype(float)).charging

    assert at.sum() > 1000
    assert charging.tolist() == [said[state] for state in np.array(battery_state)[at]]


def test_extrasensory_is_online_for_no_more_than_ten_minutes_after_a_sample(some_people):
    table = read_csv_table(some_people / "states.csv")
    user, unix_s = table.whole_numbers("user"), table.whole_numbers("t")
    trace = read_trace(some_people, unknown="offline")

    by_hand_s = sum(
        int(np.minimum(np.diff(unix_s[user == one]), 600).sum()) + 60 for one in np.unique(user)
    )
    assert int((trace.lasts_s * trace.online).sum()) == by_hand_s


def test_extrasensory_charges_for_as_long_as_its_samples_say(some_people):
    """Lengths of stays on the charger, from the first sample that says so to the first not."""
    table = read_csv_table(some_people / "states.csv")
    on = {"charging": True, "full": True, "unplugged": False, "discharging": False}
    on["not_charging"] = False
    by_hand: list[int] = []
    since: dict[str, int] = {}
    columns = [table.columns[name] for name in ("user", "battery_state", "plugged")]
    for user, word, plug, t_s in zip(*columns, table.whole_numbers("t").tolist(), strict=True):
        is_on = True if plug in ("ac", "usb", "wireless") else on.get(word)
        if is_on:
            since.setdefault(user, t_s)
        elif is_on is False and user in since:
            by_hand.append(t_s - since.pop(user))
    trace = read_records(main_file(some_people), "extrasensory", "hold").trace
    change = np.flatnonzero(is_change(trace.offsets, (trace.charging,)))
    is_last = np.isin(np.append(change[1:], trace.num_changes), trace.offsets)
    ends_s = np.append(trace.times_s[change[1:]], 0)
    read = (ends_s - trace.times_s[change])[trace.charging[change] & ~is_last]

    assert len(by_hand) > 10
    assert sorted(read.tolist()) == sorted(by_hand)
