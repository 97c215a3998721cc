"""Fixed selection, and what all baselines refuse of the clients that they are given."""

import pytest
from pydantic import ValidationError

from fleetsim.errors import ScenarioError
from fleetsim.selectors.baselines.fixed import FixedSelector, FixedSettings
from fleetsim.selectors.baselines.round_robin import RoundRobinSettings
from fleetsim.selectors.baselines.uniform import RandomSettings
from tests.selectors.rounds import fleet_of, view_of


def test_takes_the_available_ones_in_the_given_order_up_to_those_wanted():
    fleet = fleet_of([1] * 8, cohort=2)
    selector = FixedSelector(FixedSettings(clients=(6, 1, 3, 0)))
    selector.setup(fleet)

    assert selector.select(view_of(fleet)).tolist() == [6, 1]
    assert selector.select(view_of(fleet, candidates=[0, 2, 3, 5])).tolist() == [3, 0]
    assert selector.select(view_of(fleet, candidates=[2, 3, 5])).tolist() == [3]
    assert selector.select(view_of(fleet, candidates=[2, 5])).tolist() == []


MISSING = [
    (FixedSettings(clients=(0, 8)), r"clients: there is no client 8.* 0 to 7"),
    (RoundRobinSettings(sets=((0, 1), (2, 9))), r"sets\[1\]: there is no client 9"),
    (RandomSettings(from_sets=((0, 1), (2, 8, 4))), r"from_sets\[1\]: there is no client 8"),
]


@pytest.mark.parametrize(("settings", "message"), MISSING)
def test_a_client_that_the_fleet_does_not_have_is_the_users_error(settings, message):
    with pytest.raises(ScenarioError, match=rf"server\.selector\.{message}"):
        settings.build().setup(fleet_of([1] * 8))


WRONG = [
    *((FixedSettings, {"clients": clients}) for clients in ((), (1, 2, 1), (-1,))),
    *((RoundRobinSettings, {"sets": sets}) for sets in ((), ((),), ((1, 1),))),
    (RandomSettings, {"from_sets": ((0, 1), (2,)), "weights": "size"}),
]


@pytest.mark.parametrize(("kind", "keys"), WRONG)
def test_no_client_a_client_twice_a_negative_id_and_sets_by_size_are_refused(kind, keys):
    with pytest.raises(ValidationError):
        kind(**keys)
