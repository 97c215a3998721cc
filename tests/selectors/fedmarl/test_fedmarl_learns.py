"""FedMarl's agents learn which clients are worth their training, over several seeds.

The expected directions come from the construction of the fleet and from the weights of the reward.
Without any learning all of five seeds are above untrained agents with a chance of 1 / 32.
"""

from statistics import fmean

import pytest

from fleetsim.selectors.fedmarl.selector import FedMarlSettings
from tests.selectors.fedmarl.constructed_fleet import COHORT, Kept, met, play, trained

SEEDS = range(5)
EPISODES = 6


def of_agents(settings: FedMarlSettings, seed: int, *, fast: bool, learn: bool) -> Kept:
    """Return who continues in an episode of its own with frozen agents, trained or not."""
    frozen = settings.model_copy(update={"learning": False})
    fleet, selector = met(frozen, 90_000 + seed)
    if learn:
        selector.take_up(trained(settings, seed, EPISODES, good_are_fast=fast))
    return play(fleet, selector, 90_000 + seed, good_are_fast=fast)


@pytest.mark.parametrize(
    "fast",
    [
        pytest.param(True, id="good are fast"),
        pytest.param(False, id="good are slow", marks=pytest.mark.slow),
    ],
)
def test_trained_agents_keep_good_clients_more_often_than_untrained_ones(fast):
    settings = FedMarlSettings()
    before = [of_agents(settings, seed, fast=fast, learn=False) for seed in SEEDS]
    after = [of_agents(settings, seed, fast=fast, learn=True) for seed in SEEDS]

    # Untrained agents choose at random among the candidates, half of which are good. 500 choices
    # have a standard deviation of 0.022.
    assert fmean(kept.good_share for kept in before) == pytest.approx(0.5, abs=0.09)
    assert all(one.good_share > other.good_share for one, other in zip(after, before, strict=True))
    assert fmean(kept.good_share for kept in after) > 0.7


@pytest.mark.slow
def test_agents_that_pay_for_traffic_alone_let_one_client_continue():
    settings = FedMarlSettings(accuracy_weight=0.0, latency_weight=0.0, traffic_weight=5.0)
    before = [of_agents(settings, seed, fast=True, learn=False) for seed in SEEDS]
    after = [of_agents(settings, seed, fast=True, learn=True) for seed in SEEDS]

    assert {kept.num_by_round for kept in before} == {COHORT}
    assert fmean(kept.num_by_round for kept in after) < 1.5
