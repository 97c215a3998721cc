"""Scores of FedGCS by hand, their scale on three records, and in a selector."""

import dataclasses
import statistics

import numpy as np
import pytest

from fleetsim.selectors.fedgcs.equations import scores
from fleetsim.selectors.fedgcs.records import NO_RECORDS, ScoreScale, SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from fleetsim.selectors.fedgcs.surrogate import surrogate_records
from tests.selectors.fedgcs.test_fedgcs import finished, play, ready, records_of, weights_at
from tests.selectors.rounds import view_of

TEN = {"budget_s": 10.0, "budget_j": 10.0}


def one_score(performance, seconds, joules, **more):
    arrays = (np.array([x]) for x in (performance, seconds, joules))
    return scores(*arrays, **TEN | more).item()


@pytest.mark.parametrize(
    ("seconds", "joules", "exponents", "expected"),
    [
        (10.0, 10.0, {}, 0.8),
        (5.0, 1.0, {}, 0.8),
        (20.0, 10.0, {}, 0.2),
        (10.0, 40.0, {}, 0.05),
        (20.0, 40.0, {}, 0.0125),
        (20.0, 40.0, {"latency_exponent": 1.0}, 0.8 / 2 / 16),
        (20.0, 40.0, {"energy_exponent": 0.0}, 0.8 / 4),
    ],
)
def test_a_score_is_the_performance_less_penalties_on_what_exceeds_a_budget(
    seconds, joules, exponents, expected
):
    """(10 / 20)^2 = 1/4 and (10 / 40)^2 = 1/16; within the budget there is no bonus."""
    assert one_score(0.8, seconds, joules, **exponents) == pytest.approx(expected)


def test_extreme_costs_give_a_score_and_no_warning():
    assert one_score(0.8, 1e300, 0.0) == 0.0
    assert one_score(0.8, 5.0, 5.0, budget_s=5e-324, budget_j=1e300) == 0.0


THREE = SelectionRecords.of([[0], [1], [2]], [0.2, 0.6, 0.4], [10.0, 20.0, 40.0], [5.0, 10.0, 10.0])
"""Budgets are 20 s and 10 J. The third takes twice the seconds: scores 0.2, 0.6 and 0.4 / 4."""


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # The medians are 15 s and 1 J: 20 s cost (15 / 20)^2, 40 s (15 / 40)^2, 2 J (1 / 2)^2.
        ({}, [0.5, 0.6 * 0.5625, 0.7 * 0.25, 0.9 * 0.140625]),
        ({"budget_s": 40.0, "budget_j": 2.0}, [0.5, 0.6, 0.7, 0.9]),
        (
            {"budget_s": 40.0, "budget_j": 2.0, "performance_scale": "min_max"},
            [0.0, 0.25, 0.5, 1.0],
        ),
    ],
)
def test_budgets_are_medians_of_the_records_or_as_given(rules, expected):
    seconds, joules = [10.0, 20.0, 10.0, 40.0], [1.0, 1.0, 2.0, 1.0]
    four = SelectionRecords.of([[5, 1], [2], [1, 2, 7], [9]], [0.5, 0.6, 0.7, 0.9], seconds, joules)
    keys = FedGCSSettings(**rules)

    assert ScoreScale.of(four, keys).scores(four, keys).tolist() == pytest.approx(expected)


def test_records_without_costs_are_scored_by_performance():
    free = SelectionRecords.of([[0], [1]], [0.25, 0.5], [0.0, 0.0], [0.0, 0.0])

    assert ScoreScale.of(free, FedGCSSettings()).scores(free, FedGCSSettings()).tolist() == [
        0.25,
        0.5,
    ]


def test_the_scale_of_three_records():
    scale = ScoreScale.of(THREE, FedGCSSettings())

    assert scale == pytest.approx((20.0, 10.0, 0.2, 0.6, 0.1, 0.6))
    # A record of the fit has the score that was learned.
    assert scale.targets(THREE, FedGCSSettings()) == pytest.approx([0.2, 1.0, 0.0])


SCALED = {"performance_scale": "min_max"}
"""Scores of the three are then 0, 1 and 0.5 / 4, of which the range is 0 to 1."""


@pytest.mark.parametrize(
    ("performance", "seconds", "joules", "rules", "target"),
    [
        # Within both budgets: the performance; better than all records is above 1.
        (0.7, 20.0, 10.0, {"target": "raw"}, 0.7),
        (0.7, 20.0, 10.0, {}, 1.2),
        # Twice the seconds and twice the joules: a sixteenth, below the worst record.
        (0.8, 40.0, 20.0, {"target": "raw"}, 0.05),
        (0.8, 40.0, 20.0, {}, -0.1),
        # Scaled performance is not below the worst.
        (0.7, 10.0, 5.0, SCALED, 1.25),
        (0.4, 10.0, 5.0, SCALED, 0.5),
        (0.1, 10.0, 5.0, SCALED, 0.0),
    ],
)
def test_a_round_is_scored_with_the_budgets_and_the_range_of_the_records(
    performance, seconds, joules, rules, target
):
    keys = FedGCSSettings(**rules)
    record = SelectionRecords.of([[7]], [performance], [seconds], [joules])

    assert ScoreScale.of(THREE, keys).targets(record, keys)[0] == pytest.approx(target)


def realised(records, accuracy, seconds, joules):
    """The score of a round on the scale of records, in plain Python."""
    budget_s = statistics.median(records.latency_s.tolist())
    budget_j = statistics.median(records.energy_j.tolist())

    def score(performance, s, j):
        return performance * min(1.0, budget_s / s) ** 2 * min(1.0, budget_j / j) ** 2

    columns = (records.performance, records.latency_s, records.energy_j)
    known = [score(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return (score(accuracy, seconds, joules) - min(known)) / (max(known) - min(known))


def test_a_proposed_round_tells_its_estimate_the_ascent_and_the_score():
    fleet, selector = ready(warm_up_rounds=4, refit_rounds=1)
    play(fleet, selector, 4)
    assert selector.diagnostics() == {}
    fitted = records_of(selector)
    chosen = selector.select(view_of(fleet, round_=5)).tolist()
    proposals = selector.last_proposals
    # This round is fitted to at once, which gives the networks another scale.
    selector.observe(finished(5, chosen, 0.7, 45.0))
    diagnostics = selector.diagnostics()

    assert len(records_of(selector)) == 5
    assert diagnostics["expected"] == proposals.estimates[0]
    assert diagnostics["ascent"] == pytest.approx(
        [sum(step) / 4 for step in proposals.curve.tolist()]
    )
    assert diagnostics["realised"] == pytest.approx(realised(fitted, 0.7, 45.0, 7.0 * len(chosen)))


def test_another_set_than_the_proposed_one_has_a_score_and_no_estimate(tmp_path):
    fleet, selector = ready(learning=False, weights=weights_at(tmp_path))
    chosen = selector.select(view_of(fleet)).tolist()
    other = [client for client in range(9) if client not in chosen][:2]
    selector.observe(finished(1, other))
    assert selector.diagnostics().keys() == {"realised"}

    selector.observe(finished(2, chosen))
    assert selector.diagnostics().keys() == {"realised"}


def test_what_is_not_known_is_not_reported(tmp_path):
    fleet, selector = ready(learning=False, weights=weights_at(tmp_path), accuracy=None)
    chosen = selector.select(view_of(fleet)).tolist()
    selector.observe(dataclasses.replace(finished(1, chosen), validation=None))
    assert selector.diagnostics().keys() == {"expected", "ascent"}

    fleet, guessing = ready(records="surrogate", warm_up_rounds=2, accuracy=None)
    play(fleet, guessing, 3)
    assert guessing.diagnostics().keys() == {"expected", "ascent"}


FOUR = SelectionRecords.of(
    [[5, 1], [2], [1, 2, 7], [9]], [0.5, 0.6, 0.7, 0.9], [10.0, 20.0, 10.0, 40.0], [1.0, 1.0, 2, 1]
)


def test_records_can_be_joined_chosen_and_left_out():
    joined = FOUR + FOUR.chosen(np.array([3, 0]))

    assert [selection.tolist() for selection in joined.selections[3:]] == [[9], [9], [5, 1]]
    assert joined.performance[3:].tolist() == [0.9, 0.9, 0.5]
    assert joined.latency_s[3:].tolist() == [40.0, 40.0, 10.0]
    assert joined.clients.tolist() == [1, 2, 5, 7, 9]
    is_known = np.arange(10) != 7
    assert [s.tolist() for s in FOUR.within(is_known).selections] == [[5, 1], [2], [9]]
    assert len(NO_RECORDS.within(is_known)) == 0


@pytest.mark.parametrize(("num", "fraction", "held"), [(2, 0.5, 0), (3, 0.1, 1), (40, 0.1, 4)])
def test_a_share_of_the_records_is_held_out(num, fraction, held):
    records = SelectionRecords.of([[i] for i in range(num)], *np.ones((3, num)))
    rows, held_out = records.split(fraction, seed=3)

    assert held_out.size == held
    assert sorted([*rows.tolist(), *held_out.tolist()]) == list(range(num))
    assert records.split(0.0, seed=3)[1].size == 0


def test_each_selection_comes_in_many_orders():
    long = SelectionRecords.of([list(range(8)), [3, 1]], *np.ones((3, 2)))
    orders, row = long.orders(25, 0)

    assert row.tolist() == [0] * 25 + [1] * 25
    assert all(sorted(order.tolist()) == list(range(8)) for order in orders[:25])
    assert len({tuple(order.tolist()) for order in orders[:25]}) > 20
    assert {tuple(order.tolist()) for order in orders[25:]} == {(3, 1), (1, 3)}


def test_without_shuffles_each_comes_as_it_was_selected():
    orders, row = FOUR.orders(0, 0)

    assert [order.tolist() for order in orders] == [[5, 1], [2], [1, 2, 7], [9]]
    assert row.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("selection", "numbers", "message"),
    [
        ([1, 1], (1.0, 1.0, 1.0), "distinct clients"),
        ([], (1.0, 1.0, 1.0), "sizes of selections must be positive, got 0"),
        ([3, -1], (1.0, 1.0, 1.0), "clients must not be negative, got -1"),
        ([1], (-1.0, 1.0, 1.0), "performance must be finite"),
        ([1], (1.0, np.nan, 1.0), "latency_s must be finite"),
        ([1], (1.0, 1.0, np.inf), "energy_j must be finite"),
    ],
)
def test_a_record_that_cannot_be_is_refused(selection, numbers, message):
    with pytest.raises(ValueError, match=message):
        SelectionRecords.of([selection], *([number] for number in numbers))


def test_surrogates_score_sets_by_what_clients_reported():
    """Utilities 1, 2, 3 and a client never seen, which counts as 2: scaled to 0, 1/2, 1, 1/2."""
    utility = np.array([1.0, 2.0, 3.0, np.nan])
    seconds, joules = np.array([10.0, 30.0, 20.0, np.nan]), np.array([1.0, 2.0, 6.0, np.nan])
    dice = np.random.Generator(np.random.Philox(1))
    records = surrogate_records(utility, seconds, joules, 50, 2, dice)
    worth, filled_s, filled_j = [0.0, 0.5, 1.0, 0.5], [10.0, 30.0, 20.0, 20.0], [1.0, 2.0, 6.0, 3.0]

    assert len(records) == 50
    assert records.clients.tolist() == [0, 1, 2, 3]
    for i, (a, b) in enumerate(selection.tolist() for selection in records.selections):
        assert records.performance[i] == pytest.approx((worth[a] + worth[b]) / 2)
        assert records.latency_s[i] == max(filled_s[a], filled_s[b])
        assert records.energy_j[i] == pytest.approx(filled_j[a] + filled_j[b])
    unknown = np.full(4, np.nan)
    assert len(surrogate_records(unknown, unknown, unknown, 5, 2, dice)) == 0
