"""Answers of selectors: which are right, and whose fault a wrong one is."""

import re
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from fleetsim import contracts
from fleetsim.contracts import FleetView, ProbeRequest, RoundView, WorkKind
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.errors import PluginError, SimulationError
from tests.engine.tiny import FirstCome

Cohort: Any = contracts.Cohort
Work: Any = contracts.Work
USER = UserPart("--plugin mine:Mine", "/home/mine.py")
MODEL = np.zeros(3, dtype=np.float32)
FLEET = FleetView(1, np.full(4, 100), 2, 1, 50, 0.1, 1, MODEL)
OUTCOME: Any = None
VIEW = RoundView(1, 1.5, 2, np.arange(4), np.full(4, 100), MODEL)
EVALUATE = Work(WorkKind.EVALUATE)


class Answers(FirstCome):
    """Gives an answer of its own to one of its calls."""

    def __init__(self, method, answer):
        super().__init__()
        setattr(self, method, lambda *_: answer)


def answered(method: str, answer: Any, user: UserPart | None = None) -> Any:
    """Return the checked answer to a call, after those that come before it."""
    selector = CheckedSelector(Answers(method, answer), user, Clock(1.5))
    result: Any = selector.setup(FLEET)
    if method in ("probe", "select"):
        result = getattr(selector, method)(VIEW)
    elif method == "diagnostics":
        result = selector.observe(OUTCOME)
    elif method == "state":
        result = selector.state()
    return result


class Silent:
    def __repr__(self):
        raise RuntimeError("no text")


def probe(client=0, work=EVALUATE, **more):
    return [ProbeRequest(client, work, **more)]


CHOICE = "must return at most 2 distinct clients of view.candidates, got "
PROBES = "must return a sequence of ProbeRequests, () for none, got "
PROBE = "must return ProbeRequests with "
START = "must return 3 finite numbers as start, got "
STATE = "must return a dict of arrays without objects, by name, got "
NUMBERS = "must return finite numbers, or lists of them, by names that are identifiers, {} for none"
NO_CHOICES: list[Any] = [
    None, "01", 1, [0.0, 1.5], np.array([True, False, True, False]), np.array([[0, 1]]),
    [[0], [0, 1]], [0, None], [1, 1], [0, 1, 2], [0, 4], [0, -1], {0: 1}, Silent(), iter([0]),
    np.array([2**63], dtype=np.uint64), np.broadcast_to(np.int64(0), 10**12),
    torch.ones(2, requires_grad=True), [2**63],
]  # fmt: skip
NO_NUMBERS: list[Any] = [
    None, [1.0], {"the loss": 1.0}, {1: 1.0}, {"loss": "1.0"}, {"loss": True}, {"loss": 1j},
    {"loss": float("nan")}, {"loss": [1.0, float("inf")]}, {"loss": 10**400}, {"loss": []},
    {"loss": np.zeros((2, 2))}, {"loss": {1.0}}, {"loss": None},
]  # fmt: skip
WRONG: list[Any] = [
    *[("select", Cohort(answer), CHOICE) for answer in NO_CHOICES],
    *[("select", answer, CHOICE) for answer in NO_CHOICES],
    ("select", [np.int64(7)], CHOICE + "[7]; 7 is none of them now (view.candidates[i] is the"),
    ("select", [0, 1, 2], CHOICE + "[0, 1, 2]; these are 3"),
    ("select", [1, 1], CHOICE + "[1, 1]; one is there twice"),
    ("select", None, CHOICE + "None; their numbers are a list or an array [n] of integers"),
    ("select", object(), CHOICE + "<object object>"),
    ("select", Silent(), CHOICE + "an object of Silent"),
    ("select", np.zeros(10**6), CHOICE + "an array of float64 of shape (1000000,)"),
    *[("select", Cohort([0], start=start), START) for start in ([1.0], [1.0, np.nan, 1.0], "one")],
    ("select", Cohort([0], start=[1e300] * 3), START + "[1e+300, 1e+300, 1e+300]"),
    *[(call, answer, PROBES) for call in ("setup", "probe") for answer in (
        None, 5, [3], {"client": 3}, np.arange(2), iter(probe()))],
    *[("probe", probe(client), f"{PROBE}a client from 0 to 3, got ") for client in (
        4, -1, 1.0, True, "0", None, np.arange(2))],
    *[("probe", probe(0, work), f"{PROBE}a Work of whole numbers") for work in (
        None, WorkKind.EVALUATE, Work(WorkKind.TRAIN), Work(WorkKind.TRAIN, epochs=1.5),
        Work(WorkKind.TRAIN, epochs=-1), Work("train", epochs=1),
        Work(WorkKind.EVALUATE, num_samples=0))],
    ("probe", probe(upload_byte=8.5), f"{PROBE}whole numbers of bytes, at least 0, got [0, 8.5]"),
    ("probe", probe(download_byte=-1), f"{PROBE}whole numbers of bytes, at least 0, got [-1, 8]"),
    ("probe", probe(parameters=[1.0]), f"{PROBE}3 finite numbers as parameters, got [1.0]"),
    ("probe", probe(belief="high"), f"{PROBE}a number as belief, got 'high'"),
    ("probe", 2 * probe(1), "must return one ProbeRequest for each client, got [1, 1]"),
    ("state", None, STATE),
    ("state", {"seen": [1, 2]}, STATE),
    ("state", {1: np.zeros(2)}, STATE),
    ("state", {"seen": np.array([None])}, STATE),
    *[("diagnostics", answer, NUMBERS) for answer in NO_NUMBERS],
]  # fmt: skip


@pytest.mark.parametrize(("method", "answer", "text"), WRONG)
def test_a_wrong_answer_is_a_fault_of_the_user_if_the_selector_is_theirs(method, answer, text):
    with pytest.raises(
        SimulationError, match=re.escape(f"at virtual time 1.5 s: Answers.{method} {text}")
    ):
        answered(method, answer)
    with pytest.raises(PluginError) as caught:
        answered(method, answer, USER)

    line = str(caught.value)
    assert line.startswith(f"--plugin mine:Mine: at virtual time 1.5 s, {method} {text}")
    assert line.endswith(" (/home/mine.py)")
    assert "\n" not in line
    assert len(line) < 800


@pytest.mark.parametrize("answer", [[1, 0], np.array([1, 0], dtype=np.uint8), (), np.zeros(0)])
def test_a_list_of_whole_numbers_or_of_nobody_is_a_choice(answer):
    assert answered("select", answer).clients.tolist() == list(answer)


def test_models_of_other_number_types_become_those_of_the_task():
    (request,) = answered("probe", probe(parameters=[1.0, 2.0, 3.0]))

    assert request.parameters.dtype == np.float32
    assert answered("select", Cohort([0], start=np.ones(3))).start.dtype == np.float32


def test_numbers_about_a_round_are_json_of_sorted_names():
    numbers = {"loss": 0.1, "expected": np.float32(2.0), "ascent": np.array([1.0, 1.5])}
    numbers |= {"pair": (np.int64(1), 0.25)}

    assert answered("diagnostics", MappingProxyType(numbers)) == (
        '{"ascent": [1.0, 1.5], "expected": 2.0, "loss": 0.1, "pair": [1.0, 0.25]}'
    )
    assert answered("diagnostics", {}) is None


class Teller(FirstCome):
    """Tells an answer about every round."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = answers

    def diagnostics(self):
        return self.answers[len(self.outcomes) - 1]


def test_numbers_are_recorded_with_the_round_that_was_just_observed(tiny):
    tiny.run(selector=Teller({"loss": 0.5}, {}), stop={"rounds": 2})
    tiny.run(selector=FirstCome(), stop={"rounds": 1})

    texts = [row.selector_diagnostics for row in tiny.recorder.rounds]
    assert texts == ['{"loss": 0.5}', None, None]


def test_a_round_whose_numbers_are_refused_leaves_no_task_either(tiny):
    selector = Teller({"fine": 1.0}, {"loss": None})
    with pytest.raises(PluginError, match="diagnostics must return"):
        tiny.run(selector=selector, user=USER, stop={"rounds": 2})

    assert {row.round for row in tiny.recorder.tasks} == {row.round for row in tiny.recorder.rounds}


def test_a_model_to_start_from_is_kept_apart_from_the_selectors_array(tiny):
    """Clients that never deliver leave the model at 10, whatever the selector does to its array."""
    start = np.full(3, 10.0, dtype=np.float32)

    class Reusing(FirstCome):
        def select(self, view):
            return Cohort(super().select(view), start=start)

        def observe(self, outcome):
            super().observe(outcome)
            start[:] = 0.0

    tiny.run(selector=Reusing(), crash_per_hour=3600.0)

    assert tiny.selector.outcomes[0].parameters.tolist() == [10.0] * 3
