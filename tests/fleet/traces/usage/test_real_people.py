"""Published usage traces as read, against counts of their rows; the slow tests of validation read
them whole."""

from fleetsim.fleet.traces.csv_table import read_csv_table
from fleetsim.fleet.traces.usage.files import read_trace


def test_flhetbench_sums_to_the_seconds_of_its_intervals(real_trace):
    home = real_trace("flash-flhetbench")
    table = read_csv_table(home / "intervals.csv.gz")
    trace = read_trace(home)

    assert (trace.num_users, table.num_rows) == (710, 14_139)
    by_hand_s = int((table.whole_numbers("end_s") - table.whole_numbers("start_s")).sum())
    assert int((trace.lasts_s * trace.online).sum()) == by_hand_s
