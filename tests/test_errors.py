"""Exceptions as notebooks show them."""

import pytest

from fleetsim import errors
from fleetsim.errors import DataError, DivergenceError, ScenarioError, SimulationError


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        (
            ScenarioError("a.yaml:3: x: missing", "a.yaml:4: y: missing"),
            ["ScenarioError: a.yaml:3: x: missing", "a.yaml:4: y: missing"],
        ),
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
