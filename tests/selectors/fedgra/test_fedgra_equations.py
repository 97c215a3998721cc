import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray
from fleetsim.selectors.fedgra.equations import (
    HIGHER_IS_BETTER,
    choose,
    entropies,
    entropy_weights,
    fairness_after,
    free_capacity,
    grades,
    grey_relational_grades,
    loss_metric,
    mapped,
    mean_normalised,
    relational_coefficients,
    smoothed,
)

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


def test_columns_are_divided_by_their_means():
    # Means of (.5, .25, 0) and (.6, 0, 0): .25 and .2.
    normalised = mean_normalised(np.array([[0.5, 0.6], [0.25, 0.0], [0.0, 0.0]]))

    assert normalised == pytest.approx(np.array([[2.0, 3.0], [1.0, 0.0], [0.0, 0.0]]))


def test_coefficients_fall_with_the_distance_from_the_best():
    # Delta: 0, 1, 2 and 0, 3, 3; Delta_max 3, rho .5: 1.5 / (Delta + 1.5).
    normalised = np.array([[2.0, 3.0], [1.0, 0.0], [0.0, 0.0]])
    expected = [[1.0, 1.0], [0.6, 1 / 3], [3 / 7, 1 / 3]]

    assert relational_coefficients(normalised) == pytest.approx(np.array(expected))


def test_entropy_is_low_where_few_clients_stand_out():
    # Shares 2/3, 1/3, 0: E = (ln 3 - 2/3 ln 2) / ln 3 = 1 - 2/3 * .6309298 = .5793801.
    # Shares 1, 0, 0: E = 0.
    entropy = entropies(np.array([[2.0, 3.0], [1.0, 0.0], [0.0, 0.0]]))

    assert entropy == pytest.approx([0.5793801, 0.0], abs=1e-7)


def test_weights_are_the_shares_of_information():
    # 1 - E = .4206199 and 1, sum 1.4206199: .2960819 and .7039181.
    weights = entropy_weights(np.array([0.5793801, 0.0]))

    assert weights == pytest.approx([0.2960819, 0.7039181], abs=1e-7)


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


def test_the_loss_metric_is_the_length_of_the_losses():
    assert loss_metric(np.array([[3.0, 4.0], [0.5, 0.0]])).tolist() == [5.0, 0.5]


def test_fairness_grows_until_selection():
    # b = 3, f = 1. Client 0 was selected; 1 goes from 1 to 2; 2 from 2 to 3 = b: forced.
    after, is_forced = fairness_after(
        np.array([2.0, 1.0, 2.0]), np.array([True, False, False]), bound=3.0
    )

    assert after.tolist() == [1.0, 2.0, 3.0]
    assert is_forced.tolist() == [False, False, True]


def test_printed_fairness_begins_anew_when_a_client_is_marked():
    after, is_forced = fairness_after(
        np.array([2.0, 2.0]), np.array([True, False]), bound=3.0, reset="marking"
    )

    assert after.tolist() == [1.0, 1.0]
    assert is_forced.tolist() == [False, True]


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


def test_forced_clients_go_first_by_fairness_then_grade():
    # Forced: 3 (F 8), then 0 and 1 (F 6; grade .9 before .2); then the best grade of the others.
    positions = choose(
        grade=np.array([0.2, 0.9, 0.5, 0.1, 0.7]),
        fairness=np.array([6.0, 6.0, 1.0, 8.0, 2.0]),
        is_forced=np.array([True, True, False, True, False]),
        num=4,
        keys=np.zeros(5),
    )

    assert positions.tolist() == [3, 1, 0, 4]


def test_capped_and_printed_overflow():
    # Four forced of five, three wanted. Capped: the three fairest. Printed: all four, and 3 - 1
    # others by grade, of whom there is one.
    grade = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    fairness = np.array([9.0, 8.0, 7.0, 6.0, 1.0])
    is_forced, keys = fairness > 1.0, np.zeros(5)

    assert choose(grade, fairness, is_forced, 3, keys).tolist() == [0, 1, 2]
    assert choose(grade, fairness, is_forced, 3, keys, "printed").tolist() == [0, 1, 2, 3, 4]
