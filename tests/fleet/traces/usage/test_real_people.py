"""Published usage traces as read, against counts of their rows; the slow tests of validation read
them whole."""

import gzip
from itertools import islice

import numpy as np
import pytest

from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.validation.people import usage_of


def test_flhetbench_sums_to_the_seconds_of_its_intervals(real_trace):
    home = real_trace("flash-flhetbench")
    table = read_csv_table(home / "intervals.csv.gz")
    trace = read_trace(home)

    assert (trace.num_users, table.num_rows) == (710, 14_139)
    by_hand_s = int((table.whole_numbers("end_s") - table.whole_numbers("start_s")).sum())
    assert int((trace.lasts_s * trace.online).sum()) == by_hand_s


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
