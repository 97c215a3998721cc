"""Numbers that a selector tells about its rounds: what is recorded, and what is refused."""

from __future__ import annotations

import json
from collections import deque
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fleetsim.errors import SimulationError
from tests.engine.tiny import FirstCome


class Teller(FirstCome):
    """Tells an answer about every round."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def diagnostics(self):
        return self.answers[len(self.outcomes) - 1]


def recorded(tiny, *answers):
    tiny.selector = Teller(*answers)
    tiny.stop = {"rounds": len(answers)}
    return texts_of(tiny)


def texts_of(tiny):
    tiny.run()
    return [row.selector_diagnostics for row in tiny.recorder.rounds]


def test_numbers_are_recorded_with_the_round_that_was_just_observed(tiny):
    first = {"loss": 0.1, "expected": np.float32(2.0), "ascent": np.array([1.0, 1.5])}
    second = MappingProxyType({"num": np.int64(3), "pair": (1, 0.25)})

    assert recorded(tiny, first, {}, second) == [
        '{"ascent": [1.0, 1.5], "expected": 2.0, "loss": 0.1}',
        None,
        '{"num": 3.0, "pair": [1.0, 0.25]}',
    ]


def test_a_number_is_read_back_to_the_bit(tiny):
    values = [0.1, 1e-310, -0.0, 1.7976931348623157e308]
    (text,) = recorded(tiny, {"values": values})

    assert [float(value).hex() for value in json.loads(text)["values"]] == [
        value.hex() for value in values
    ]


def test_a_selector_without_the_method_tells_nothing(tiny):
    assert texts_of(tiny) == [None]


WRONG: dict[str, Any] = {
    "nothing": None,
    "a list": [1.0],
    "a name with a blank": {"the loss": 1.0},
    "a number as a name": {1: 1.0},
    "a word": {"loss": "1.0"},
    "a truth": {"loss": True},
    "not a number": {"loss": float("nan")},
    "infinite in a list": {"loss": [1.0, float("inf")]},
    "too large": {"loss": 10**400},
    "a complex number": {"loss": 1j},
    "an empty list": {"loss": []},
    "a table": {"loss": np.zeros((2, 2))},
    "a set": {"loss": {1.0}},
    "none": {"loss": None},
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_other_answers_break_the_run(tiny, answer):
    with pytest.raises(
        SimulationError, match=r"Teller\.diagnostics must return finite numbers, or lists of them"
    ) as caught:
        recorded(tiny, answer)

    assert "\n" not in str(caught.value)


def test_an_attribute_of_that_name_is_told_apart_from_a_method(tiny):
    tiny.selector = FirstCome()
    tiny.selector.diagnostics = deque([1.0])

    with pytest.raises(SimulationError, match=r"FirstCome\.diagnostics must return"):
        tiny.run()


def test_a_round_whose_numbers_are_refused_leaves_no_task_either(tiny):
    tiny.selector = Teller({"fine": 1.0}, {"loss": None})
    tiny.stop = {"rounds": 2}
    with pytest.raises(SimulationError):
        tiny.run()

    assert {row.round for row in tiny.recorder.tasks} == {row.round for row in tiny.recorder.rounds}
