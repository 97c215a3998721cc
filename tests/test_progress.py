"""Progress of a run on a terminal."""

from fleetsim.contracts import Progress
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.host.plain_console import PlainConsole
from fleetsim.progress import bar, fraction_done, logged
from fleetsim.scenario import load


def test_a_long_run_logs_a_line_every_half_a_minute():
    now_s = [100.0]
    lines: list[str] = []
    show = logged(load("quickstart"), lines.append, clock=lambda: now_s[0])
    for at_s, round_ in ((101.0, 1), (129.9, 2), (130.0, 3), (159.9, 4), (175.0, 5), (204.0, 6)):
        now_s[0] = at_s
        show(Progress(round_, 60.0 * round_, 0.5, 1000.0, 8, 10))

    # Quickstart has 80 rounds.
    state = "accuracy 0.500  1.0 kJ  8/10 delivered"
    assert lines == [
        f"quickstart: 4%  round 3  00:03:00  {state}",
        f"quickstart: 6%  round 5  00:05:00  {state}",
    ]


def test_a_run_is_as_far_as_its_nearest_stop_rule():
    stop = StopSettings(rounds=10, time_s=1000.0, energy_j=100.0, accuracy=0.9)

    assert fraction_done(stop, Progress(2, 50.0, 0.45, 10.0, 1, 1)) == 0.5
    assert fraction_done(stop, Progress(2, 900.0, None, 10.0, 1, 1)) == 0.9
    assert fraction_done(stop, Progress(30, 0.0, None, 0.0, 1, 1)) == 1.0


def test_a_bar_is_shown_to_a_person_alone(capsys):
    for is_terminal in (False, True):
        console = PlainConsole(force_terminal=is_terminal, width=80)
        with bar("timeline", console) as update:
            update(0.5, "half-way")

        out = capsys.readouterr().out
        assert ("timeline" in out, "half-way" in out) == (is_terminal, is_terminal)
