"""Values of users in messages."""

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import bundled, errors
from fleetsim.contracts import Progress
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.errors import DataError, DivergenceError, ScenarioError, SimulationError
from fleetsim.host.plain_console import PlainConsole
from fleetsim.progress import bar, fraction_done, logged
from fleetsim.quoting import MAX_LINE, MAX_VALUE, cut, one_line, quoted
from fleetsim.scenario import load


@given(st.text(max_size=300))
def test_a_quoted_value_is_short_printable_and_begins_as_the_value_does(text):
    shown = quoted(text)

    assert shown.isprintable()
    assert len(shown) <= MAX_VALUE
    assert shown == repr(text) or (shown[-3:] == "..." and repr(text)[1:].startswith(shown[1:-3]))


@given(st.text(max_size=300))
def test_a_line_that_is_printable_stays_and_another_becomes_so(text):
    assert one_line(text).isprintable()
    assert (one_line(text) == text) == text.isprintable()


def test_a_very_long_line_keeps_its_place_and_its_way_out():
    line = one_line(f"a.yaml:3: {'x' * 10_000}; shorten it")

    assert len(line) == MAX_LINE
    assert line.startswith("a.yaml:3: xxx")
    assert line.endswith("xxx; shorten it")


def test_what_just_fits_is_not_cut():
    assert cut("x" * 80) == "x" * 80
    assert cut("x" * 81) == f"{'x' * 77}..."
    assert quoted("x" * 78) == f"'{'x' * 78}'"


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (ScenarioError("a: missing", "b: missing"), ["ScenarioError: a: missing", "b: missing"]),
        (DataError("a\x1b[2J.csv: no such file"), ["DataError: a\\x1b[2J.csv: no such file"]),
        (DivergenceError("weights are not finite"), ["DivergenceError: weights are not finite"]),
    ],
)
def test_a_fault_of_the_user_is_its_message_alone(fault, lines):
    assert fault._render_traceback_() == lines


def test_a_bug_keeps_its_traceback():
    """IPython asks for the attribute."""
    assert not hasattr(SimulationError("broken", 1.0), "_render_traceback_")
    assert not hasattr(errors.FleetsimError("any"), "_render_traceback_")


FAR = "0" * 12
"""A name that resembles no bundled one."""


@pytest.mark.parametrize("kind", typing.get_args(bundled.Kind))
def test_the_message_on_an_unknown_name_fits_on_a_screen(kind):
    """However many files are bundled; 700 characters are nine lines of a terminal."""
    message = bundled.not_found(kind, FAR)

    assert "bundled are " in message
    assert len(message) <= 700


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
