import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray, Outcome, Purpose
from fleetsim.selectors.fedgra.equations import (
    HIGHER_IS_BETTER,
    choose,
    fairness_after,
    free_capacity,
    grades,
    grey_relational_grades,
    mapped,
    smoothed,
)
from fleetsim.selectors.fedgra.selector import FedGRASettings
from tests.selectors.rounds import met, report_of, resources_of, view_of


def ready(size=6, *, cohort=2, **settings):
    return met(FedGRASettings(**settings), (10,) * size, cohort=cohort)


def answer(client, loss=1.0, *, moved=1.0, outcome=Outcome.DELIVERED, **resources):
    """An answer of a client that moved by `moved` in one of the three weights."""
    report = report_of(client, loss=loss, outcome=outcome, purpose=Purpose.PROBE)
    if outcome is not Outcome.DELIVERED:
        return report
    vector = np.array([0.0, moved, 0.0], dtype=np.float32)
    return report._replace(vector=vector, resources=resources_of(**resources))


def play(fleet, selector, round_, answers, **view):
    """A choice: asked clients, and those chosen by these answers."""
    asked = [r.client for r in selector.probe(view_of(fleet, round_=round_, **view))]
    assert not asked or not selector.probe(view_of(fleet, round_=round_, stage=1, **view))
    reports = [report for report in answers if report.client in asked]
    return asked, selector.select(view_of(fleet, round_=round_, reports=reports, **view)).tolist()


def test_who_gives_no_whole_answer_is_out_and_its_fairness_grows():
    fleet, selector = ready(cohort=6)
    answers = [
        answer(0, outcome=Outcome.LATE),
        answer(1, math.nan),
        answer(2, 2.0),
        answer(3, None),
        answer(4, 1.0, moved=math.inf),
        answer(5, 1.0)._replace(resources=None),
    ]

    assert play(fleet, selector, 1, answers)[1] == [2]
    assert selector.state()["fairness"].tolist() == [2, 2, 1, 2, 2, 2]


def test_without_any_answer_forced_clients_come_first_and_then_random_ones():
    fleet, selector = ready(4, cohort=1, every_rounds=1, fairness_bound=2.0)
    play(fleet, selector, 1, [answer(client, 1.0 + client) for client in range(4)])
    _, chosen = play(fleet, selector, 2, [], wanted=4)

    assert chosen[3] == 0
    assert sorted(chosen) == [0, 1, 2, 3]


def test_the_client_can_compute_its_divergence_itself():
    chosen = []
    for place in ("server", "client"):
        fleet, selector = ready(cohort=6, divergence_at=place)
        answers = [answer(client, 2.0, moved=1.0 + client % 4) for client in range(4)]
        if place == "client":
            answers = [
                report._replace(update_norm=float(np.linalg.norm(report.vector)), vector=None)
                for report in answers
            ]
        chosen.append(play(fleet, selector, 1, answers)[1])

    # The further, the better.
    assert chosen == [[3, 2, 1, 0], [3, 2, 1, 0]]


# The worked example: three clients, loss (less is better) and processing power (more is better).
METRICS = np.array([[1.0, 4.0], [2.0, 1.0], [3.0, 1.0]])
DIRECTIONS = np.array([False, True])

# Whole numbers: sums and differences are exact, whatever the order of the clients.
TABLES: st.SearchStrategy[FloatArray] = st.lists(
    st.tuples(*[st.integers(0, 6).map(float)] * 4), min_size=1, max_size=7
).map(np.array)


def test_the_worst_client_is_mapped_to_zero():
    # Loss: max 3, min 1: (3 - 1)/4, (3 - 2)/4, 0. Power: max 4, min 1: (4 - 1)/5, 0, 0.
    assert mapped(METRICS, DIRECTIONS).tolist() == [[0.5, 0.6], [0.25, 0.0], [0.0, 0.0]]
    # With max - min below: 2 and 3.
    assert mapped(METRICS, DIRECTIONS, "range").tolist() == [[1.0, 1.0], [0.5, 0.0], [0.0, 0.0]]


def test_grades_multiply_by_the_weights_or_as_printed_divide():
    # By w: the grades are 1, then .6 * .2960819 + .7039181 / 3 = .1776491 + .2346394, and
    # last 3/7 * .2960819 + .7039181 / 3 = .1268922 + .2346394.
    # By 1/w = 3.3774439 and 1.4206199: 4.7980638, then 2.0264663 + .4735400, and last
    # 1.4474760 + .4735400.
    ewm = grey_relational_grades(METRICS, DIRECTIONS)
    inverse = grey_relational_grades(METRICS, DIRECTIONS, weighting="inverse")

    assert ewm == pytest.approx([1.0, 0.4122885, 0.3615316], abs=1e-7)
    assert inverse == pytest.approx([4.7980638, 2.5000063, 1.9210160], abs=2e-6)


@settings(max_examples=40)
@given(
    table=TABLES,
    scale=st.tuples(*[st.integers(1, 9).map(float)] * 4),
    offset=st.tuples(*[st.integers(0, 9).map(float)] * 4),
)
def test_units_and_offsets_of_the_metrics_do_not_matter(table, scale, offset):
    moved = table * np.array(scale) + np.array(offset)

    assert grey_relational_grades(moved) == pytest.approx(grey_relational_grades(table), rel=1e-9)


@settings(max_examples=40)
@given(table=TABLES)
def test_the_denominators_of_6_and_7_cancel(table):
    assert grey_relational_grades(table, mapping="range") == pytest.approx(
        grey_relational_grades(table, mapping="sum"), rel=1e-9
    )


@settings(max_examples=40)
@given(table=TABLES)
def test_who_is_no_worse_in_any_metric_has_no_lower_grade(table):
    grade = grey_relational_grades(table)
    gain = np.where(HIGHER_IS_BETTER, table, -table)
    for i in range(len(table)):
        for j in range(len(table)):
            if np.all(gain[i] >= gain[j]):
                assert grade[i] >= grade[j] - 1e-12


@pytest.mark.parametrize("weighting", ["ewm", "inverse"])
def test_clients_that_nothing_tells_apart_have_equal_grades(weighting):
    for num in (1, 4):
        grade = grey_relational_grades(np.full((num, 4), 3.0), weighting=weighting)

        assert grade.tolist() == [0.0] * num


def test_no_client_has_no_grades():
    assert grey_relational_grades(np.empty((0, 4))).tolist() == []
    none = np.empty(0)
    assert choose(none, none, np.empty(0, dtype=bool), 3, none).tolist() == []


def test_a_metric_without_weight_is_left_out_of_printed_grades():
    assert grades(np.ones((2, 2)), np.array([1.0, 0.0]), "inverse").tolist() == [1.0, 1.0]


def test_load_takes_its_share_of_a_capacity():
    # 4 cores at 2.3 GHz, a quarter busy: 9.2e9 * .75 = 6.9e9; 8 GB, all in use: 0.
    assert free_capacity(np.array([9.2e9, 8e9]), np.array([0.25, 1.0])).tolist() == [6.9e9, 0.0]


def test_smoothing_begins_with_the_first_value():
    # .9 * 10 + .1 * 20 = 11.
    average = smoothed(np.array([10.0, 10.0]), np.array([20.0, np.nan]))

    assert average == pytest.approx([11.0, 10.0])


def test_no_client_is_forced_before_the_sixth_selection():
    # N = 50, n = 10, b = 6, f = 1 (table IV): unselected clients have F = 2, 3, 4, 5, 6 after
    # selections 1 to 5. The same ten lead in grades, so the other forty mature together.
    fairness, is_forced = np.ones(50), np.zeros(50, dtype=bool)
    grade, keys = -np.arange(50.0), np.arange(50.0)
    chosen = []
    for _ in range(9):
        cohort = choose(grade, fairness, is_forced, 10, keys)
        chosen.append(cohort.tolist())
        fairness, is_forced = fairness_after(fairness, np.isin(np.arange(50), cohort))

    assert chosen[:5] == [list(range(10))] * 5
    # Then the forty go first, ten at a time, best grade first; all are through after nine.
    assert chosen[5:] == [list(range(start, start + 10)) for start in (10, 20, 30, 40)]
