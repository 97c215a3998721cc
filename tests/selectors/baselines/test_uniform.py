import math

import numpy as np
import pytest

from fleetsim.contracts import FleetView, FloatArray
from fleetsim.selectors.baselines.uniform import RandomSettings, draw
from tests.selectors.rounds import fleet_of, view_of


def inclusion(
    settings: RandomSettings,
    fleet: FleetView,
    num_rounds: int,
) -> FloatArray:
    """Share of the rounds in which each client was chosen."""
    selector = settings.build()
    selector.setup(fleet)
    counts = np.zeros(fleet.num_samples.size)
    for round_ in range(1, num_rounds + 1):
        counts[selector.select(view_of(fleet, round_=round_))] += 1
    return counts / num_rounds


def test_weight_zero_comes_last():
    assert draw(np.array([0.0, 1.0, 0.0]), 3, np.array([0.1, 9.0, 0.2])).tolist() == [1, 0, 2]


def test_size_proportional_inclusion_is_that_of_sequential_renormalisation():
    # n = 1, 2, 3, so p = 1/6, 1/3, 1/2, and two are drawn. P(i in S) = p_i + sum over first draws
    # j of p_j p_i / (1 - p_j):
    #   1/6 + 1/3 (1/6)/(2/3) + 1/2 (1/6)/(1/2) =  5/12
    #   1/3 + 1/6 (1/3)/(5/6) + 1/2 (1/3)/(1/2) = 11/15
    #   1/2 + 1/6 (1/2)/(5/6) + 1/3 (1/2)/(2/3) = 17/20
    # Uniform draws (2/3 each) and inclusion proportional to size (1/3, 2/3, 1) are both farther
    # off than the 4 standard errors of 4000 rounds that are allowed.
    exact = np.array([5 / 12, 11 / 15, 17 / 20])
    share = inclusion(RandomSettings(weights="size"), fleet_of([1, 2, 3]), 4000)

    assert np.all(np.abs(share - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000))


def test_uniform_inclusion_is_k_over_n_whatever_the_sizes():
    # 2 of 5: 0.4 each; 4 standard errors of 4000 rounds are 0.031.
    share = inclusion(RandomSettings(), fleet_of([1, 10, 100, 1000, 9]), 4000)

    assert np.all(np.abs(share - 0.4) < 4 * math.sqrt(0.4 * 0.6 / 4000))


@pytest.mark.parametrize("weights", ["uniform", "size"])
def test_a_missing_client_changes_no_other_clients_luck(weights):
    fleet = fleet_of([3, 1, 4, 1, 5, 9, 2, 6], cohort=8)
    selector = RandomSettings(weights=weights).build()
    selector.setup(fleet)
    all_clients = selector.select(view_of(fleet)).tolist()
    without_5 = selector.select(view_of(fleet, candidates=[0, 1, 2, 3, 4, 6, 7])).tolist()

    assert without_5 == [client for client in all_clients if client != 5]


SETS = ((0, 1), (2, 3, 4), (5,))


@pytest.mark.parametrize("settings", [{}, {"weights": "size"}, {"from_sets": ((0, 1), (2, 3))}])
def test_a_draw_stands_for_a_slot_and_is_that_of_its_number(settings):
    fleet = fleet_of([3, 1, 4, 1, 5, 9, 2, 6], cohort=2)

    def chosen(round_: int, slot_rounds: int) -> list[int]:
        selector = RandomSettings(slot_rounds=slot_rounds, **settings).build()
        selector.setup(fleet)
        chosen: list[int] = selector.select(view_of(fleet, round_=round_)).tolist()
        return chosen

    of_slot = [chosen(slot, 1) for slot in range(1, 9)]
    assert [chosen(round_, 3) for round_ in range(1, 25)] == [s for s in of_slot for _ in range(3)]
    assert len({tuple(clients) for clients in of_slot}) > 1


def test_missing_members_of_a_set_come_from_the_next_ones():
    fleet = fleet_of((10,) * 6)
    selector = RandomSettings(from_sets=SETS).build()
    selector.setup(fleet)
    chosen = {
        tuple(selector.select(view_of(fleet, round_=r, wanted=3, candidates=[1, 3, 5])).tolist())
        for r in range(40)
    }

    assert chosen == {(1, 3, 5), (3, 5, 1), (5, 1, 3)}
