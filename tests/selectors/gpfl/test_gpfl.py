"""GPFL on three clients whose vectors can be projected by hand; the model is zero, eta is 0.1."""

import dataclasses
import math

import numpy as np
import pytest

from fleetsim.contracts import Evaluation, Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.gpfl.selector import GPFLSettings
from tests.selectors.rounds import met, outcome_of, report_of, view_of

FIRST = {0: [3.0, 0.0, 0.0], 1: [0.0, 3.0, 0.0], 2: [3.0, 3.0, 0.0]}
"""First vectors: G = (2, 2, 0), |G| = 2 sqrt(2), c = 6, 6, 12 over it: 2.1213, 2.1213, 4.2426."""


def ready(*, planned=10, is_validated=True, **settings):
    validation = Evaluation(0.5, 1.0) if is_validated else None
    more = {"cohort": 1, "planned_rounds": planned, "validation": validation}
    return met(GPFLSettings(**settings), (10, 20, 30), **more)


def initial(client, vector=None):
    report = report_of(client, purpose=Purpose.PROBE)
    return report._replace(vector=np.array(vector or FIRST[client], dtype=np.float32))


def trained(client, gradient, outcome=Outcome.DELIVERED):
    """A client whose steps' gradients add up to `gradient`, from a model of zeros."""
    report = report_of(client, loss=1.0, outcome=outcome)
    base = np.zeros(3, dtype=np.float32)
    if outcome is not Outcome.DELIVERED:
        return report._replace(base=base)
    vector = base - np.float32(0.1) * np.array(gradient, dtype=np.float32)
    return report._replace(base=base, vector=vector)


def choose(fleet, selector, round_, answers=None):
    """The choice of a round; all asked clients answer with their initial vectors."""
    view = view_of(fleet, round_=round_, wanted=3)
    asked = [request.client for request in selector.probe(view)]
    if answers is None:
        answers = [initial(client) for client in asked]
    view = dataclasses.replace(view, reports=tuple(answers))
    return asked, selector.select(view).tolist()


def observe(selector, round_, reports):
    outcome = outcome_of(round_, reports)
    selector.observe(dataclasses.replace(outcome, validation=Evaluation(0.6, 0.9)))


def test_a_vector_that_is_not_finite_is_none():
    fleet, selector = ready()
    answers = [initial(0), initial(1, [math.nan, 0.0, 0.0])]
    _, chosen = choose(fleet, selector, 1, answers=answers)
    assert set(chosen[:2]) == {1, 2}
    assert selector.state()["direction"].tolist() == FIRST[0]

    observe(selector, 1, [trained(1, [math.inf, 0.0, 0.0])])
    state = selector.state()
    assert math.isnan(state["projection"][1])
    assert state["num_pulls"].tolist() == [1, 0, 0]


def test_the_number_of_rounds_is_asked_for_by_name():
    with pytest.raises(ScenarioError, match=r"set stop\.rounds"):
        ready(planned=None)


# --- the gradient at the client's own model -------------------------------------------------------


def test_who_delivered_is_asked_for_the_gradient_at_the_model_that_it_holds():
    fleet, selector = ready(vector="last_gradient", initial_batch=15)
    choose(fleet, selector, 1)
    late = trained(1, [1.0, 0.0, 0.0], outcome=Outcome.LATE)
    observe(selector, 1, [trained(2, [1.0, 2.0, 0.0]), late])
    [asked] = selector.probe(view_of(fleet, round_=2))

    assert (asked.client, asked.needs_model, asked.uploads_vector) == (2, False, True)
    assert (asked.work.kind, asked.work.num_samples) == (WorkKind.GRADIENT, 15)
    # A step of eta 0.1 from zeros.
    assert asked.parameters.tolist() == pytest.approx([-0.1, -0.2, 0.0])
    assert list(selector.probe(view_of(fleet, round_=2, candidates=[0, 1]))) == []
