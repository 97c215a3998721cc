import numpy as np

from fleetsim.contracts import Outcome, Purpose
from fleetsim.selectors.baselines.uniform import draw
from fleetsim.selectors.power_of_choice.selector import PowerOfChoiceSettings
from fleetsim.selectors.tie_breaking import best
from tests.selectors.rounds import met, report_of, view_of


def test_the_draw_and_the_ranking_by_hand():
    drawn = draw(np.array([9.0, 1.0, 3.0]), 2, np.ones(3))

    assert drawn.tolist() == [0, 2]
    assert best(np.array([0.5, 2.0, 2.0]), 2, np.array([0.0, 0.9, 0.1])).tolist() == [2, 1]


def test_a_cheap_probe_runs_over_one_batch_or_what_there_is():
    fleet, selector = met(PowerOfChoiceSettings(variant="cpow-d"), (10, 64, 65, 1000), cohort=4)
    requests = selector.probe(view_of(fleet, candidates=[0, 2, 3]))
    samples = {request.client: request.work.num_samples for request in requests}

    assert samples == {0: 10, 2: 64, 3: 64}


def test_without_any_answer_the_order_of_the_draw_decides():
    fleet, selector = met(PowerOfChoiceSettings(d=4), (10,) * 6)
    drawn = [request.client for request in selector.probe(view_of(fleet))]
    silent = [report_of(c, outcome=Outcome.LATE, purpose=Purpose.PROBE) for c in drawn]

    assert selector.select(view_of(fleet, reports=silent)).tolist() == drawn[:2]


def test_when_all_asked_have_left_those_there_are_drawn_anew():
    fleet, selector = met(PowerOfChoiceSettings(d=2), (10,) * 6)
    drawn = {request.client for request in selector.probe(view_of(fleet))}
    others = sorted(set(range(6)) - drawn)
    chosen = selector.select(view_of(fleet, candidates=others)).tolist()

    assert len(chosen) == 2
    assert set(chosen) <= set(others)
