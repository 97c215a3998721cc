"""The figure of the fleet's batteries."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from fleetsim.contracts import Outcome, Purpose
from fleetsim.report.figures import accuracy, batteries, device_costs, gantt, selection, style
from tests.report.drawn import begins, dots, line, tick_labels, widths, words, x_of, y_of
from tests.report.rows import client_frame, round_frame, round_row, task_frame, task_row

HOUR_S = 3600.0


def encoded(figure: Figure, suffix: str) -> bytes:
    return style.encode(figure, [suffix])[suffix]


RISING = round_frame(
    round_row(1, 0.2, finished_at_s=1 * HOUR_S, energy_total_j=500.0),
    round_row(2, None, finished_at_s=2 * HOUR_S, energy_total_j=1000.0),
    round_row(3, 0.7, finished_at_s=6 * HOUR_S, energy_total_j=4000.0),
    round_row(4, 0.6, finished_at_s=8 * HOUR_S, energy_total_j=6000.0),
)
NEVER_EVALUATED = round_frame(round_row(1), round_row(2))


@pytest.mark.parametrize(
    ("against", "x", "label"),
    [
        ("time", [1.0, 6.0, 8.0], "virtual time (h)"),
        ("energy", [0.5, 4.0, 6.0], "energy of the whole fleet (kJ)"),
        ("rounds", [1.0, 3.0, 4.0], "round"),
    ],
)
def test_accuracy_is_drawn_where_it_was_evaluated(against, x, label):
    axes = accuracy.accuracy({"run": RISING}, against=[against]).axes[0]
    drawn = line(axes, "run")

    assert x_of(drawn) == x
    assert y_of(drawn) == [0.2, 0.7, 0.6]
    assert drawn.get_drawstyle() == "steps-post"
    assert axes.get_xlabel() == label


def test_a_dot_marks_where_a_target_was_first_reached() -> None:
    axes = accuracy.accuracy({"run": RISING}, against=["time"], targets=[0.1, 0.6, 0.9]).axes[0]

    assert x_of(dots(axes)) == [1.0, 6.0]
    assert y_of(dots(axes)) == [0.2, 0.7]


def test_a_run_without_accuracy_is_named_as_such_beside_others() -> None:
    axes = accuracy.accuracy({"a": RISING, "b": NEVER_EVALUATED}, against=["time"]).axes[0]

    assert (len(x_of(line(axes, "a"))), len(x_of(line(axes, "b (no accuracy)")))) == (3, 0)
    alone = accuracy.accuracy({"a": NEVER_EVALUATED}, against=["energy"])
    assert "nothing was evaluated" in words(alone)


TASKS = task_frame(
    task_row(0, 0, "phone"),
    task_row(1, 1, "phone", compute_s=2.0, outcome=Outcome.LATE, energy_compute_j=10.0),
    task_row(2, 2, "board", download_s=0.0, outcome=Outcome.OFFLINE),
    task_row(3, 2, "board", purpose=Purpose.PROBE, compute_s=30.0, upload_s=0.5),
)


def test_time_is_added_up_and_averaged_by_device() -> None:
    left, right = device_costs.seconds_by_device(TASKS).axes[:2]

    assert tick_labels(left) == ["phone", "board"]  # 16 s, 40.5 s: the most at the top
    assert (widths(left, "download"), widths(left, "compute")) == ([2.0, 1.0], [8.0, 36.0])
    assert widths(left, "upload") == [6.0, 3.5]
    assert (begins(left, "compute"), begins(left, "upload")) == ([2.0, 1.0], [10.0, 37.0])
    assert widths(right, "compute") == [4.0, 6.0]  # probes are not in the mean


def test_waste_is_told_apart_by_cause_and_device() -> None:
    figure = device_costs.waste(TASKS)
    left, right = figure.axes
    (by_cause,) = left.containers
    assert isinstance(by_cause, BarContainer)

    assert tick_labels(left) == ["offline", "late"]
    assert [bar.get_width() for bar in by_cause] == [20.0, 28.0]
    assert tick_labels(right) == ["board", "phone"]
    assert (widths(right, "late"), widths(right, "offline")) == ([0.0, 28.0], [20.0, 0.0])
    assert "48.0 J of 88.0 J (54.5 %)" in words(figure)
    assert "nothing was wasted" in words(device_costs.waste(TASKS.iloc[:1]))


def test_devices_beyond_what_fits_are_drawn_as_one_of_each_kind() -> None:
    many = task_frame(*(task_row(number, number, f"device-{number}") for number in range(60)))
    kinds = {f"device-{number}": "phone" if number % 3 else "board" for number in range(60)}
    alike = device_costs.seconds_by_device(many).axes[0]
    apart = device_costs.seconds_by_device(many, kinds).axes[0]

    assert len(tick_labels(alike)) == len(tick_labels(apart)) == 24
    assert "other devices (37)" in tick_labels(alike)
    # All have one task: the first 22 are kept, and of the last 38 every third is a board.
    others = [label for label in tick_labels(apart) if label.startswith("other")]
    assert sorted(others) == ["other boards (12)", "other phones (26)"]
    for axes in (alike, apart):
        assert sum(widths(axes, "compute")) == pytest.approx(60 * 6.0 / 60.0)  # min


def test_every_client_of_a_small_fleet_has_its_bars() -> None:
    clients = client_frame(["phone", "board", "phone", "phone"], [3, 9, 5, 0])
    clients["num_delivered"] = [2, 4, 5, 0]
    axes = selection.selections(clients).axes[0]
    drawn = [[bar.get_width() for bar in group] for group in axes.containers[:4]]

    # Devices by their mean (9, then 8/3), clients by their count; selected, then delivered.
    assert drawn == [[9], [4], [5, 3, 0], [5, 2, 0]]
    assert tick_labels(axes) == ["board: 1", "phone: 3"]


def test_a_large_fleet_is_drawn_as_shares_that_fill_each_bar() -> None:
    size = 100_000
    clients = client_frame(["phone", "board"] * (size // 2), [0, 0, 1, 3] * (size // 4))
    left, right = selection.selections(clients).axes[:2]

    assert tick_labels(left) == ["phone: 50,000", "board: 50,000"]  # means 0.5 and 1.5
    assert (widths(left, "0"), widths(left, "1")) == ([0.5, 0.5], [0.5, 0.0])
    assert (widths(left, "2"), widths(left, "3")) == ([0.0, 0.0], [0.0, 0.5])
    assert [bar.get_width() for bar in right.containers[0]] == [0.5, 1.5]


@given(st.lists(st.integers(0, 400), max_size=60))
def test_bins_hold_every_count_exactly_once(counts: list[int]) -> None:
    edges = selection.bins(np.array(counts, dtype=np.int64))

    assert edges[:2] == [0, 1]
    assert edges == sorted(set(edges))
    assert edges[-1] == max(counts, default=0) + 1
    assert len(edges) - 1 <= 7


def test_counts_from_tasks_see_train_tasks_and_everybody_asked() -> None:
    counts = selection.counts_from_tasks(
        task_frame(
            task_row(0, 5, "board", purpose=Purpose.PROBE),
            task_row(1, 3, "phone"),
            task_row(2, 3, "phone", outcome=Outcome.LATE),
        )
    )

    assert counts.to_dict("list") == {
        "client": [3, 5],
        "device": ["phone", "board"],
        "num_selected": [2, 0],
        "num_delivered": [1, 0],
    }


def test_the_round_with_the_longest_waiting_is_shown() -> None:
    rounds = round_frame(
        round_row(1, waiting_s=2.0), round_row(2, waiting_s=7.0), round_row(3, waiting_s=None)
    )

    assert gantt.round_with_longest_waiting(rounds) == 2


def test_a_task_is_drawn_from_dispatch_to_its_end() -> None:
    rounds = round_frame(round_row(1, started_at_s=0.0, finished_at_s=112.0))
    tasks = task_frame(
        task_row(0, 4, dispatched_at_s=100.0, finished_at_s=110.0),
        task_row(
            1,
            9,
            "board",
            dispatched_at_s=100.0,
            compute_s=8.0,
            finished_at_s=112.0,
            outcome=Outcome.LATE,
        ),
        task_row(2, 7, purpose=Purpose.PROBE),
        task_row(3, 7, round=2),
    )
    axes = gantt.stragglers(rounds, tasks, deadline_s=12.0).axes[0]

    assert tick_labels(axes) == ["phone  #4", "board  #9"]
    assert begins(axes, "compute") == [1.0, 1.0]
    assert widths(axes, "compute") == [6.0, 8.0]
    assert begins(axes, "upload") == [7.0, 9.0]
    assert widths(axes, "done, waiting") == [2.0]
    assert x_of(line(axes, "round closed")) == [12.0, 12.0]
    assert x_of(line(axes, "deadline")) == [12.0, 12.0]
    assert line(axes, "late").get_marker() == "X"


def test_pauses_are_drawn_before_the_upload_where_there_are_any() -> None:
    tasks = task_frame(
        task_row(1, 4, paused_s=3.0, num_pauses=2, finished_at_s=13.0), task_row(2, 9)
    )
    axes = gantt.stragglers(round_frame(round_row(1, finished_at_s=13.0)), tasks).axes[0]

    assert widths(axes, "paused (total)") == [0.0, 3.0]
    assert begins(axes, "upload") == [7.0, 10.0]


def test_only_the_longest_tasks_of_a_large_round_are_shown() -> None:
    tasks = task_frame(*(task_row(n, n, finished_at_s=10.0 + n) for n in range(130)))
    figure = gantt.stragglers(round_frame(round_row(1, finished_at_s=200.0)), tasks)

    assert len(tick_labels(figure.axes[0])) == gantt.MAX_ROWS
    assert tick_labels(figure.axes[0])[-1] == "phone  #129"
    assert "the 40 longest of 130 tasks" in words(figure)


def everything(
    rounds: pd.DataFrame, tasks: pd.DataFrame, clients: pd.DataFrame
) -> dict[str, Figure]:
    return {
        "accuracy": accuracy.accuracy({"run": rounds}, against=["time", "energy", "rounds"]),
        "seconds": device_costs.seconds_by_device(tasks),
        "joules": device_costs.joules_by_device(tasks),
        "waste": device_costs.waste(tasks),
        "selections": selection.selections(clients),
        "stragglers": gantt.stragglers(rounds, tasks),
    }


@pytest.mark.slow
def test_tables_without_rows_make_figures_that_say_so() -> None:
    drawn = everything(round_frame(), task_frame(), client_frame([], []))

    assert all(encoded(figure, "png") for figure in drawn.values())
    assert "no tasks" in words(drawn["joules"])
    assert "no client was selected" in words(drawn["selections"])
    assert "No round" in words(drawn["stragglers"])


@pytest.mark.slow
def test_names_are_drawn_as_they_are() -> None:
    name = "$\\frac{<script>}$ & co"
    tasks = task_frame(task_row(0, 0, name))

    for figure in everything(RISING, tasks, client_frame([name], [1])).values():
        assert b"<script" not in encoded(figure, "svg")
    assert name in words(device_costs.seconds_by_device(tasks))


@pytest.mark.slow
def test_equal_tables_are_saved_as_equal_bytes_without_a_date_in_three_formats(tmp_path):
    (tmp_path / "again").mkdir()
    svg, again = (
        style.save(device_costs.waste(TASKS), folder, "waste")
        for folder in (tmp_path, tmp_path / "again")
    )
    begins_with = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    files = {path.suffix[1:]: path.read_bytes() for path in tmp_path.glob("waste.*")}

    assert svg == again == files["svg"]
    assert files.keys() == begins_with.keys()
    for suffix, data in files.items():
        assert data.startswith(begins_with[suffix])
        assert data == (tmp_path / "again" / f"waste.{suffix}").read_bytes()
        assert not any(date in data for date in (b"<dc:date>", b"/CreationDate"))


def live_row(round_: int, **changes):
    fields = {
        "num_off": round_ - 1,
        "battery_low_fraction": 0.1,
        "battery_median_fraction": 0.5,
        "battery_high_fraction": 0.9,
        "num_eligible": 10 - round_,
    }
    return round_row(round_, finished_at_s=3600.0 * round_, **fields | changes)


def test_levels_and_clients_are_drawn_at_the_ends_of_rounds_in_hours():
    rounds = round_frame(*(live_row(k) for k in range(1, 5)))
    upper, lower = batteries.levels(rounds).axes
    (area,) = upper.collections
    heights = np.asarray(area.get_paths()[0].vertices, dtype=np.float64)[:, 1]

    assert x_of(line(upper, "median")) == [1.0, 2.0, 3.0, 4.0]
    assert y_of(line(upper, "median")) == [0.5] * 4
    assert (heights.min(), heights.max()) == (pytest.approx(0.1), pytest.approx(0.9))
    assert y_of(line(lower, "eligible and idle")) == [9.0, 8.0, 7.0, 6.0]
    assert y_of(line(lower, "off (empty)")) == [0.0, 1.0, 2.0, 3.0]
    assert lower.get_xlabel() == "virtual time (h)"
