from __future__ import annotations

import math

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, WorkKind
from fleetsim.selectors.fedgra import FedGRASettings
from tests.selectors.rounds import met, report_of, resources_of, view_of


def ready(size=6, *, cohort=2, **settings):
    return met(FedGRASettings(**settings), (10,) * size, cohort=cohort)


def answer(client, loss=1.0, *, moved=1.0, outcome=Outcome.DELIVERED, **told):
    """An answer of a client that moved by `moved` in one of the three weights."""
    report = report_of(client, loss=loss, outcome=outcome, purpose=Purpose.PROBE)
    if outcome is not Outcome.DELIVERED:
        return report
    vector = np.array([0.0, moved, 0.0], dtype=np.float32)
    return report._replace(vector=vector, resources=resources_of(**told))


def play(fleet, selector, round_, answers, candidates=None, left=(), wanted=None):
    """A choice: asked clients, and those chosen among the remaining ones by these answers."""
    there = list(range(fleet.num_samples.size)) if candidates is None else candidates
    asked = [r.client for r in selector.probe(view_of(fleet, round_=round_, candidates=there))]
    assert not asked or not selector.probe(view_of(fleet, round_=round_, candidates=there, stage=1))
    after = [client for client in there if client not in left]
    view = view_of(
        fleet,
        round_=round_,
        candidates=after,
        reports=[report for report in answers if report.client in asked],
        wanted=wanted,
    )
    return asked, selector.select(view).tolist()


def conflict():
    """Client 0 has the best loss, 2 the best processor; nothing else tells them apart."""
    return [
        answer(client, loss, flop_per_s=flop_per_s)
        for client, (loss, flop_per_s) in enumerate([(1.0, 1e9), (2.0, 1e9), (3.0, 5e9)])
    ]


def test_all_clients_are_asked_to_train_one_epoch_and_to_send_the_model_and_three_scalars():
    fleet, selector = ready()
    requests = selector.probe(view_of(fleet, candidates=[0, 2, 5]))

    assert [request.client for request in requests] == [0, 2, 5]
    for request in requests:
        assert (request.work.kind, request.work.epochs) == (WorkKind.TRAIN, 1)
        assert (request.upload_byte, request.uploads_vector) == (24, True)
        assert request.needs_model
        assert request.asks_resources


def test_where_clients_compute_the_divergence_four_scalars_are_the_whole_answer():
    fleet, selector = ready(divergence_at="client")
    request = selector.probe(view_of(fleet))[0]

    assert (request.upload_byte, request.uploads_vector) == (32, False)


@pytest.mark.parametrize(("weighting", "order"), [("ewm", [2, 0, 1]), ("inverse", [0, 2, 1])])
def test_grades_decide_as_worked_out_by_hand(weighting, order):
    # Loss 1, 2, 3: mapped 2/4, 1/4, 0, over the mean 2, 1, 0. Power 1, 1, 5: mapped 0, 0, 4/6, over
    # the mean 0, 0, 3. Deviations 0, 1, 2 and 3, 3, 0; with rho = .5 xi = 1, .6, .4286 and .3333,
    # .3333, 1. Entropies .5794 and 0, so w = .2961 and .7039; the other two metrics weigh nothing.
    # w xi:  .5307 .4123 .8308;  xi / w: 3.851 2.500 2.868.
    fleet, selector = ready(3, cohort=3, weighting=weighting)
    _, chosen = play(fleet, selector, 1, conflict())

    assert chosen == order


def test_the_set_of_a_selection_trains_until_the_next_one():
    # 3 is best in all metrics, then 1; selections in rounds 1 and 3.
    fleet, selector = ready(every_rounds=2)
    answers = [answer(client, 3.0) for client in range(6)]
    answers[3] = answer(3, 1.0, moved=9.0, flop_per_s=9e9, ram_byte=9)
    answers[1] = answer(1, 2.0, moved=5.0, flop_per_s=5e9, ram_byte=6)

    assert play(fleet, selector, 1, answers) == ([0, 1, 2, 3, 4, 5], [3, 1])
    assert play(fleet, selector, 2, []) == ([], [3, 1])
    assert play(fleet, selector, 2, [], candidates=[0, 1, 2]) == ([], [1])
    assert play(fleet, selector, 3, answers, candidates=[0, 3]) == ([0, 3], [3, 0])
    assert selector.state()["set"].tolist() == [3, 0]


def test_a_set_of_which_no_client_is_there_is_replaced_before_its_time():
    fleet, selector = ready(every_rounds=5, cohort=1)
    answers = [answer(client, 1.0 + client) for client in range(6)]

    assert play(fleet, selector, 1, answers)[1] == [0]
    assert play(fleet, selector, 2, answers, candidates=[2, 4]) == ([2, 4], [2])
    assert play(fleet, selector, 3, [])[1] == [2]


def test_fairness_forces_all_clients_in_by_turns():
    # One of three, b = 3, f = 1, 0 better than 1 better than 2. F after each selection:
    # 1 2 2 | 1 3 3 (1 and 2 forced) | 2 1 4 | 3 2 1 (0 forced) | 1 3 2.
    fleet, selector = ready(3, cohort=1, every_rounds=1, fairness_bound=3.0)
    answers = [answer(client, 1.0 + client) for client in range(3)]
    chosen, fairness = [], []
    for round_ in range(1, 6):
        chosen += play(fleet, selector, round_, answers)[1]
        fairness.append(selector.state()["fairness"].tolist())

    assert chosen == [0, 0, 1, 2, 0]
    assert fairness == [[1, 2, 2], [1, 3, 3], [2, 1, 4], [3, 2, 1], [1, 3, 2]]


def test_fairness_counts_selections_and_not_rounds():
    fleet, selector = ready(3, cohort=1, every_rounds=4)
    answers = [answer(client, 1.0 + client) for client in range(3)]
    for round_ in range(1, 5):
        play(fleet, selector, round_, answers)

    assert selector.state()["fairness"].tolist() == [1, 2, 2]


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


def test_who_left_after_answering_counts_in_the_statistics_but_is_not_chosen():
    # Loss 1, 2, 3 and power 1, 5, 1: x = 2, 1, 0 and 0, 3, 0, so that power weighs .70 and 1 beats
    # 0 by .2961 * .6 + .7039 = .88 to .2961 + .7039 / 3 = .53. Between 0 and 1 alone, each the best
    # in one of two metrics, the grades are equal.
    def order(**presence):
        fleet, selector = ready(3, cohort=3, ties="lowest_id")
        answers = [
            answer(client, loss, flop_per_s=flop_per_s)
            for client, (loss, flop_per_s) in enumerate([(1.0, 1e9), (2.0, 5e9), (3.0, 1e9)])
        ]
        return play(fleet, selector, 1, answers, **presence)[1]

    assert order(left=[2]) == [1, 0]
    assert order(candidates=[0, 1]) == [0, 1]


def test_without_any_answer_forced_clients_come_first_and_then_random_ones():
    fleet, selector = ready(4, cohort=1, every_rounds=1, fairness_bound=2.0)
    play(fleet, selector, 1, [answer(client, 1.0 + client) for client in range(4)])
    _, chosen = play(fleet, selector, 2, [], wanted=4)

    assert chosen[3] == 0
    assert sorted(chosen) == [0, 1, 2, 3]


def test_power_and_memory_are_smoothed_and_loads_taken_off():
    # m: 8e9 * .5 = 4e9, then 8e9: .9 * 8e9 + .1 * 4e9 = 7.6e9. r: 10, then 20 free of 40: 19.
    fleet, selector = ready(1, cohort=1, every_rounds=1)
    play(fleet, selector, 1, [answer(0, flop_per_s=8e9, load_fraction=0.5, ram_byte=10)])
    play(fleet, selector, 2, [answer(0, flop_per_s=8e9, ram_byte=40, free_ram_byte=20.0)])
    state = selector.state()

    assert state["power"] == pytest.approx([7.6e9], rel=1e-12)
    assert state["memory"] == pytest.approx([19.0], rel=1e-12)


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


def test_printed_overflow_takes_the_cohort_and_lets_forced_ones_in_on_top():
    # Cohort 2, room for 4, b = 2: 2 of 5 at first; then 2, 3 and 4 are forced, and one other.
    fleet, selector = ready(
        5, cohort=2, every_rounds=1, fairness_bound=2.0, overflow="printed", ties="lowest_id"
    )
    answers = [answer(client, 1.0 + client) for client in range(5)]

    assert play(fleet, selector, 1, answers, wanted=4)[1] == [0, 1]
    assert play(fleet, selector, 2, answers, wanted=4)[1] == [2, 3, 4, 0]
    assert play(fleet, selector, 3, answers, wanted=4)[1] == [1, 0]


def test_fairness_may_begin_anew_when_a_client_is_marked():
    # b = 2: 1 and 2 are marked after the first selection, at F = 1 again; 1 takes part, and the
    # mark of 2 is spent.
    fleet, selector = ready(3, cohort=1, every_rounds=1, fairness_bound=2.0, reset="marking")
    answers = [answer(client, 1.0 + client) for client in range(3)]
    play(fleet, selector, 1, answers)
    first = selector.state()
    chosen = play(fleet, selector, 2, answers)[1]

    assert first["fairness"].tolist() == [1, 1, 1]
    assert first["is_forced"].tolist() == [False, True, True]
    assert chosen == [1]
