"""Fixed selection, and what all baselines refuse of the clients that they are given."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.contracts import FleetView, FloatArray
from fleetsim.errors import ScenarioError
from fleetsim.selectors.baselines.fixed import FixedSelector, FixedSettings
from fleetsim.selectors.baselines.round_robin import RoundRobinSettings, take_turn
from fleetsim.selectors.baselines.uniform import RandomSettings, draw
from tests.selectors.rounds import fleet_of, view_of


def inclusion(settings: RandomSettings, fleet: FleetView, num_rounds: int) -> FloatArray:
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


def choices(fleet, num_rounds, *, settings=None, **view):
    selector = (settings or RoundRobinSettings()).build()
    selector.setup(fleet)
    return [
        np.asarray(selector.select(view_of(fleet, round_=round_, **view))).tolist()
        for round_ in range(1, num_rounds + 1)
    ]


@pytest.mark.parametrize("size", [1, 4, 9, 10, 11, 12])
def test_all_clients_are_covered_in_n_over_k_rounds_rounded_up(size):
    # K = 4: 1, 1, 3, 3, 3 and 3 rounds; those of the full blocks once, the top-up again.
    num_rounds = -(-size // 4)
    blocks = choices(fleet_of([1] * size, cohort=4), num_rounds)
    all_clients = sorted(client for block in blocks for client in block)
    num_repeated = max(num_rounds * 4 - size, 0) if size > 4 else 0

    assert set(all_clients) == set(range(size))
    assert len(all_clients) == size + num_repeated
    assert all(len(set(block)) == min(4, size) for block in blocks)


def test_the_cycle_repeats_and_only_its_top_up_is_new():
    # N = 10, K = 4: blocks of 4, 4 and 2 + 2 random ones.
    first, second, last, *rest = choices(fleet_of([1] * 10, cohort=4), 60)

    assert all(rest[3 * cycle] == first for cycle in range(19))
    assert all(rest[3 * cycle + 1] == second for cycle in range(19))
    assert all(rest[3 * cycle + 2][:2] == last[:2] for cycle in range(19))
    assert len({tuple(rest[3 * cycle + 2][2:]) for cycle in range(19)}) > 10


def test_over_commitment_takes_its_share_from_the_next_block():
    # N = 12, 5 wanted though K = 4: places 0-4, 5-9, 10-11 and 0-2 again.
    turns = choices(fleet_of([1] * 12, cohort=4), 3, wanted=5)
    line = turns[0] + turns[1] + turns[2]

    assert sorted(line[:12]) == list(range(12))
    assert line[12:] == line[:3]


def test_a_missing_member_is_replaced_from_the_next_block_which_keeps_its_turn():
    fleet = fleet_of([1] * 8, cohort=4)
    first, second = choices(fleet, 2)
    there = sorted(set(range(8)) - {first[1]})
    first_without, second_after = choices(fleet, 2, candidates=there)

    assert first_without == [first[0], first[2], first[3], second[0]]
    assert second_after == second


def test_sets_are_taken_in_turn_and_topped_up_from_those_behind():
    settings = RoundRobinSettings(sets=((0, 1, 2), (5, 4, 1), (7,)))
    fleet = fleet_of([1] * 8, cohort=3)

    # The third set has one client: the first set's two come along.
    assert choices(fleet, 4, settings=settings) == [[0, 1, 2], [5, 4, 1], [7, 0, 1], [0, 1, 2]]
    # Without client 1: its places go to client 5, then (after 7) to client 7.
    assert choices(fleet, 2, settings=settings, candidates=[0, 2, 4, 5, 7]) == [
        [0, 2, 5],
        [5, 4, 7],
    ]


@pytest.mark.parametrize("sets", [None, ((0, 1, 2), (5, 4, 1), (7,))])
def test_a_turn_lasts_for_a_slot(sets):
    fleet = fleet_of([1] * 8, cohort=3)
    by_round = choices(fleet, 6, settings=RoundRobinSettings(sets=sets))
    by_slot = choices(fleet, 17, settings=RoundRobinSettings(sets=sets, slot_rounds=3))

    assert by_slot == [chosen for chosen in by_round for _ in range(3)][:17]


@pytest.mark.parametrize("sets", [None, ((0, 1), (2, 3))])
def test_a_slot_that_ends_with_no_client_there_goes_on(sets):
    fleet = fleet_of([1] * 4, cohort=2)
    selector = RoundRobinSettings(sets=sets, slot_rounds=2).build()
    selector.setup(fleet)

    def chosen(round_: int, candidates: list[int] | None = None) -> list[int]:
        view = view_of(fleet, round_=round_, candidates=candidates)
        clients: list[int] = np.asarray(selector.select(view)).tolist()
        return clients

    first = chosen(1)
    assert chosen(2, []) == []
    assert chosen(3) == chosen(4) == first
    assert set(chosen(5)).isdisjoint(first)


@given(
    line=st.lists(st.integers(0, 9), max_size=40),
    wanted=st.integers(0, 12),
    there=st.sets(st.integers(0, 9)),
)
def test_a_turn_is_the_first_distinct_candidates_in_line(line, wanted, there):
    is_candidate = np.isin(np.arange(10), list(there))
    slow = list(dict.fromkeys(client for client in line if client in there))[:wanted]

    assert take_turn(np.array(line, dtype=np.int64), wanted, is_candidate).tolist() == slow
