import math

import numpy as np

from fleetsim.contracts import Outcome, Purpose
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
