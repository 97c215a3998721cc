from fleetsim.selectors.power_of_choice.selector import PowerOfChoiceSettings
from tests.selectors.rounds import met, view_of


def test_when_all_asked_have_left_those_there_are_drawn_anew():
    fleet, selector = met(PowerOfChoiceSettings(d=2), (10,) * 6)
    drawn = {request.client for request in selector.probe(view_of(fleet))}
    others = sorted(set(range(6)) - drawn)
    chosen = selector.select(view_of(fleet, candidates=others)).tolist()

    assert len(chosen) == 2
    assert set(chosen) <= set(others)
