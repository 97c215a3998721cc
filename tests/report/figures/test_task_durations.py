"""Durations of train tasks: published estimates of censored data, and tables by hand."""

import pytest

from fleetsim.contracts import Outcome, Purpose, TaskRow
from fleetsim.report.figures.task_durations import Durations, durations
from fleetsim.report.pages.run_page import duration_tables
from tests.report.drawn import line, x_of, y_of
from tests.report.rows import task_frame, task_row


def tasks(device: str, took_s: list[float], censored_s: list[float]) -> list[TaskRow]:
    """Delivered tasks, and tasks that were cut off; dispatched at moments without exact sums."""
    ends = [(at_s, Outcome.DELIVERED) for at_s in took_s]
    ends += [(at_s, Outcome.LATE) for at_s in censored_s]
    return [
        task_row(n, n, device, dispatched_at_s=0.1, finished_at_s=0.1 + at_s, outcome=outcome)
        for n, (at_s, outcome) in enumerate(ends)
    ]


def test_the_estimate_is_that_of_kaplan_and_meier_on_published_data():
    # Weeks of remission with 6-MP (Freireich et al., Blood 21, 1963); the shares are those of
    # Kleinbaum and Klein, "Survival analysis", chapter 2.
    took_s = [6.0, 6.0, 6.0, 7.0, 10.0, 13.0, 16.0, 22.0, 23.0]
    censored_s = [6.0, 9.0, 10.0, 11.0, 17.0, 19.0, 20.0, 25.0, 32.0, 32.0, 34.0, 35.0]
    of = Durations.of(task_frame(*tasks("phone", took_s, censored_s)))
    at_s = [5.9, 6.0, 7.0, 10.0, 13.0, 16.0, 22.0, 23.0, 30.0]

    assert of.longer_than(at_s) == pytest.approx(
        [1.0, 0.8571, 0.8067, 0.7529, 0.6902, 0.6275, 0.5378, 0.4482, 0.4482], abs=5e-5
    )
    assert (of.num_tasks, of.num_censored) == (21, 12)
    assert of.quantile_s(0.5) == pytest.approx(23.0)
    assert of.quantile_s(0.6) is None


FAST_AND_SLOW = task_frame(
    *tasks("slow", [4.0], [5.0, 3.0]),
    *tasks("fast", [1.0, 2.0, 2.0], []),
    task_row(9, 9, "fast", purpose=Purpose.PROBE, finished_at_s=90.0),
)


def test_tables_by_hand():
    (caption, quantiles), (_, deadlines) = duration_tables(FAST_AND_SLOW, {}, 6.0)

    assert "2 of 6 tasks ended before (2 late)" in caption
    # Slow: of the two that are left after 3 s one takes 4 s, and so half of them take longer.
    assert quantiles.rows == [
        ("fast", "3", "0", "2.00 s", "2.00 s", "2.00 s", "2.00 s"),
        ("slow", "3", "2", "4.00 s", *["over 5.00 s"] * 3),
        ("all devices", "6", "2", "2.00 s", *["over 5.00 s"] * 3),
    ]
    assert deadlines.columns == ("device", "2.00 s (50 %)", "6.00 s (server.deadline_s)")
    assert deadlines.rows == [
        ("fast", "0.0 %", "0.0 %"),
        ("slow", "100.0 %", "up to 50.0 %"),
        ("all devices", "50.0 %", "up to 25.0 %"),
    ]
    assert [table.rows for _, table in duration_tables(task_frame(), {}, None)] == [[], []]


def test_curves_end_where_nothing_more_is_known_and_the_deadline_is_a_line():
    axes = durations(FAST_AND_SLOW, deadline_s=6.0).axes[0]

    assert x_of(line(axes, "slow: 3 tasks")) == pytest.approx([0.0, 3.0, 4.0, 5.0])
    assert y_of(line(axes, "slow: 3 tasks")) == pytest.approx([0.0, 0.0, 0.5, 0.5])
    assert y_of(line(axes, "all devices: 6 tasks"))[-1] == pytest.approx(0.75)
    assert x_of(line(axes, "deadline")) == [6.0, 6.0]
    assert axes.get_xscale() == "linear"
    long = task_frame(*tasks("phone", [1.0, 1.0, 31.0], []))
    assert durations(long).axes[0].get_xscale() == "log"
