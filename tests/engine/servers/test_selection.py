"""Errors of plugins: every broken contract of a selector is reported as such."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fleetsim.contracts import Cohort
from fleetsim.errors import SimulationError
from tests.engine.tiny import FirstCome


class Answers(FirstCome):
    """Gives a wrong answer to one of its calls."""

    def __init__(self, **answers):
        super().__init__()
        self.answers = answers

    def setup(self, fleet):
        return self.answers.get("setup", ())

    def probe(self, view):
        return self.answers.get("probe", ())

    def select(self, view):
        return self.answers["select"] if "select" in self.answers else super().select(view)

    def state(self):
        return self.answers.get("state", {})


# Two of the clients 0 to 3 are wanted.
CHOICES = {
    "nothing": None,
    "a word": "01",
    "a number": 1,
    "numbers that are not whole": [0.0, 1.5],
    "a mask": np.array([True, False, True, False]),
    "a table": np.array([[0, 1]]),
    "a ragged list": [[0], [0, 1]],
    "a list of things": [0, None],
    "twice the same": [1, 1],
    "too many": [0, 1, 2],
    "nobody of the fleet": [0, 4],
    "counted from behind": [0, -1],
    "a mapping": {0: 1},
}


@pytest.mark.parametrize("answer", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("wrap", [lambda answer: answer, Cohort], ids=["ids", "cohort"])
def test_a_choice_that_is_none_breaks_the_run_at_its_moment(tiny, wrap, answer):
    tiny.selector = Answers(select=wrap(answer))

    says = "at virtual time 0.0 s: Answers.select must return at most 2 distinct candidates, got "
    with pytest.raises(SimulationError, match=re.escape(says)):
        tiny.run()


@pytest.mark.parametrize("answer", [[1, 0], (1, 0), np.array([1, 0], dtype=np.uint8)])
def test_a_list_of_whole_numbers_is_a_choice(tiny, answer):
    tiny.selector = Answers(select=answer)
    tiny.run()

    (outcome,) = tiny.selector.outcomes
    assert outcome.selected.tolist() == [1, 0]


@pytest.mark.parametrize("call", ["setup", "probe"])
@pytest.mark.parametrize("answer", [None, 5, [3], {"client": 3}])
def test_questions_that_are_none_break_the_run(tiny, call, answer):
    tiny.selector = Answers(**{call: answer})

    with pytest.raises(SimulationError, match=f"Answers.{call} must return a sequence of Probe"):
        tiny.run()


@pytest.mark.parametrize(
    "answer", [None, {"seen": [1, 2]}, {1: np.zeros(2)}, {"seen": np.array([None])}]
)
def test_a_state_that_cannot_be_kept_breaks_the_run(tiny, answer):
    tiny.selector = Answers(state=answer)

    with pytest.raises(SimulationError, match=r"Answers\.state must return a dict of arrays"):
        tiny.run()
