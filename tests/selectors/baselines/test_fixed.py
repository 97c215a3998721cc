import pytest
from pydantic import ValidationError

from fleetsim.errors import ScenarioError
from fleetsim.selectors.baselines.fixed import FixedSettings
from tests.selectors.rounds import fleet_of, view_of


def test_takes_the_available_ones_in_the_given_order_up_to_those_wanted():
    fleet = fleet_of([1] * 8, cohort=2)
    selector = FixedSettings(clients=(6, 1, 3, 0)).build()
    selector.setup(fleet)

    assert selector.select(view_of(fleet)).tolist() == [6, 1]
    assert selector.select(view_of(fleet, candidates=[0, 2, 3, 5])).tolist() == [3, 0]
    assert selector.select(view_of(fleet, candidates=[2, 3, 5])).tolist() == [3]
    assert selector.select(view_of(fleet, candidates=[2, 5])).tolist() == []


def test_a_client_that_the_fleet_does_not_have_is_the_users_error():
    selector = FixedSettings(clients=(0, 8)).build()

    with pytest.raises(ScenarioError, match=r"server\.selector\.clients.* client 8.* 0 to 7"):
        selector.setup(fleet_of([1] * 8))


@pytest.mark.parametrize("clients", [(), (1, 2, 1), (-1,)])
def test_no_client_a_client_twice_and_a_negative_id_are_refused(clients):
    with pytest.raises(ValidationError):
        FixedSettings(clients=clients)
