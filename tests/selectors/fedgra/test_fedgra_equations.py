import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray
from fleetsim.selectors.fedgra.equations import (
    HIGHER_IS_BETTER,
    choose,
    fairness_after,
    grey_relational_grades,
    loss_metric,
)

# The worked example: three clients, loss (less is better) and processing power (more is better).
METRICS = np.array([[1.0, 4.0], [2.0, 1.0], [3.0, 1.0]])
DIRECTIONS = np.array([False, True])

# Whole numbers: sums and differences are exact, whatever the order of the clients.
TABLES: st.SearchStrategy[FloatArray] = st.lists(
    st.tuples(*[st.integers(0, 6).map(float)] * 4), min_size=1, max_size=7
).map(np.array)


def test_grades_multiply_by_the_weights_or_as_printed_divide():
    # Mapped (.5, .25, 0) and (.6, 0, 0), over their means (2, 1, 0) and (3, 0, 0); distances from
    # the best 0, 1, 2 and 0, 3, 3: xi = 1.5 / (Delta + 1.5). Shares 2/3, 1/3, 0: E = (ln 3 - 2/3 ln
    # 2) / ln 3 = .5793801; 1, 0, 0: E = 0; w = .4206199 and 1, of 1.4206199.
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


def test_the_loss_metric_is_the_length_of_the_losses():
    assert loss_metric(np.array([[3.0, 4.0], [0.5, 0.0]])).tolist() == [5.0, 0.5]


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
