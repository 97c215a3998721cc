"""Progress of a run on a terminal."""

from __future__ import annotations

from rich.console import Console

from fleetsim.contracts import Progress
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.progress import duration_text, fraction_done, progress_text, share, watch
from fleetsim.scenario import load


def test_nothing_is_shown_where_nobody_watches(capsys):
    with watch(load("quickstart"), Console(force_terminal=False)) as on_progress:
        assert on_progress is None

    assert capsys.readouterr().out == ""


def test_a_person_sees_round_time_accuracy_and_joules():
    text = progress_text(Progress(7, 3725.0, 0.8125, 12_345.0, 9, 13))

    assert text == "round 7  01:02:05  accuracy 0.812  12.3 kJ  9/13 delivered"


def test_a_run_is_as_far_as_its_nearest_stop_rule():
    stop = StopSettings(rounds=10, time_s=1000.0, energy_j=100.0, accuracy=0.9)

    assert fraction_done(stop, Progress(2, 50.0, 0.45, 10.0, 1, 1)) == 0.5
    assert fraction_done(stop, Progress(2, 900.0, None, 10.0, 1, 1)) == 0.9
    assert fraction_done(stop, Progress(30, 0.0, None, 0.0, 1, 1)) == 1.0


def test_long_virtual_times_are_shown_in_days():
    assert duration_text(59.9) == "00:00:59"
    assert duration_text(86_400.0) == "1d 00:00:00"


def test_a_share_is_shown_to_a_person_alone(capsys):
    with share("timeline", Console(force_terminal=False)) as show:
        show(0.5)
    assert capsys.readouterr().out == ""

    with share("timeline", Console(force_terminal=True, width=80)) as show:
        show(0.5)

    assert "timeline" in capsys.readouterr().out
