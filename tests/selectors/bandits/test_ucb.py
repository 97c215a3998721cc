"""The bandits over sets, conventional and with a quick initialisation."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Cohort, Outcome, Purpose, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.selectors.bandits.equations import arms, index, initial_means, rewarded
from fleetsim.selectors.bandits.selector import QuickInitUcbSettings, UcbSettings
from fleetsim.selectors.bp_ucb.selector import BpUcbSettings
from fleetsim.selectors.tie_breaking import best
from tests.selectors.rounds import fleet_of, met, outcome_of, probed, report_of, view_of

IN_ORDER = {"slot_rounds": 1, "ties": "lowest_id"}


def ready(num_clients, settings, *, cohort=2, seed=7):
    return met(settings, (10,) * num_clients, cohort=cohort, seed=seed)


def play(fleet, selector, round_, opinions=None, *, candidates=None, outcome=Outcome.DELIVERED):
    """A round: these opinions of the model so far, one for all or by client; returns the choice."""
    view = view_of(fleet, round_=round_, candidates=candidates)
    requests = list(selector.probe(view))
    assert bool(requests) == (opinions is not None)
    reports = []
    for request in requests:
        client = request.client
        opinion = opinions.get(client) if isinstance(opinions, dict) else opinions
        is_silent = opinion is None
        report = report_of(
            client,
            purpose=Purpose.PROBE,
            outcome=Outcome.OFFLINE if is_silent else Outcome.DELIVERED,
        )
        reports.append(report._replace(accuracy=opinion))
    after = view_of(fleet, round_=round_, candidates=candidates, reports=reports, stage=1)
    assert list(selector.probe(after)) == []
    chosen = selector.select(after).tolist()
    done = [report_of(client, loss=1.0, outcome=outcome) for client in chosen]
    selector.observe(outcome_of(round_, done))
    return chosen


def test_a_set_trains_for_a_slot_and_is_then_evaluated_by_all_clients():
    fleet, selector = ready(4, UcbSettings(slot_rounds=3))
    first = play(fleet, selector, 1)
    assert [play(fleet, selector, 2), play(fleet, selector, 3)] == [first, first]

    requests = selector.probe(view_of(fleet, round_=4))
    assert [request.client for request in requests] == [0, 1, 2, 3]
    for request in requests:
        assert (request.work.kind, request.needs_model) == (WorkKind.EVALUATE, True)
        assert (request.work.num_samples, request.upload_byte) == (None, 8)
    # Two of four answered: (.5 + .25) / 2; then another arm, as this one was played.
    second = play(fleet, selector, 4, {0: 0.5, 3: 0.25})
    state = selector.state()
    played = int(np.flatnonzero(state["plays"])[0])

    assert state["plays"].sum() == 1
    assert state["means"][played] == 0.375
    assert arms(4, 2)[played].tolist() == first
    assert second != first


def test_a_missing_member_is_missed_for_the_slot():
    fleet, selector = ready(4, UcbSettings(slot_rounds=3, ties="lowest_id"))

    assert play(fleet, selector, 1) == [0, 1]
    assert play(fleet, selector, 2, candidates=[1, 2, 3]) == [1]
    assert play(fleet, selector, 3, candidates=[2, 3]) == []
    # The round without candidates was none of the slot's.
    assert play(fleet, selector, 4) == [0, 1]
    assert play(fleet, selector, 5, 0.5) == [0, 2]


def test_only_sets_that_are_all_there_are_played():
    fleet, selector = ready(4, UcbSettings(**IN_ORDER))

    assert play(fleet, selector, 1, candidates=[1, 3]) == [1, 3]
    # One client is no set: it trains, and no client is asked about it.
    assert play(fleet, selector, 2, 0.5, candidates=[2]) == [2]
    assert play(fleet, selector, 3) == [0, 1]
    assert selector.state()["plays"].sum() == 1


def test_a_slot_no_client_speaks_of_does_not_count_and_one_in_which_all_failed_does():
    fleet, selector = ready(3, UcbSettings(**IN_ORDER))

    assert play(fleet, selector, 1) == [0, 1]
    assert play(fleet, selector, 2, {}, outcome=Outcome.LATE) == [0, 1]
    assert play(fleet, selector, 3, 0.25) == [0, 2]
    assert selector.state()["means"].tolist() == [0.25, 0.0, 0.0]


def test_a_slot_that_no_client_speaks_of_uses_up_its_number():
    # Arms {0} and {1}. After slots 1, 3 and 4 r = (.86, .5) and Pi = (2, 1), so that {1} is next if
    # sqrt(ln t) (1 - 1 / sqrt 2) > .36: at t = 5 (.3716), not yet at t = 4 (.3449).
    fleet, selector = ready(2, UcbSettings(**IN_ORDER, mu=1.0), cohort=1)

    assert play(fleet, selector, 1) == [0]
    assert play(fleet, selector, 2, 0.86) == [1]
    assert play(fleet, selector, 3, {}) == [1]
    assert play(fleet, selector, 4, 0.5) == [0]
    assert play(fleet, selector, 5, 0.86) == [1]
    assert selector.state()["plays"].tolist() == [2, 1]
    assert selector.state()["means"].tolist() == [0.86, 0.5]


@pytest.mark.parametrize("settings", [UcbSettings, QuickInitUcbSettings, BpUcbSettings])
def test_every_slot_may_begin_with_the_initial_model(settings):
    """Two slots of two rounds: a model to start from with the first round of each."""
    fleet, selector = ready(4, settings(slot_rounds=2, model="reset"))
    starts = []
    for round_ in (1, 2, 3, 4):
        reports = [
            report_of(client, purpose=Purpose.PROBE)._replace(accuracy=0.5) for client in range(4)
        ]
        view = view_of(fleet, round_=round_, reports=reports if round_ == 3 else ())
        answer = selector.select(view)
        is_start = isinstance(answer, Cohort)
        starts.append(is_start)
        if is_start:
            assert answer.start is fleet.parameters
        chosen = answer.clients if is_start else answer
        assert chosen.size == 2
        selector.observe(outcome_of(round_, [report_of(c, loss=1.0) for c in chosen.tolist()]))

    assert starts == [True, False, True, False]


def test_every_set_is_played_once_and_then_the_one_of_the_largest_index():
    """Arms 01, 02, 12 with rewards .2, .9, .4. Slot 4: equal bonuses, so 02. Slot 5, sqrt(ln 5) =
    1.269: 02 has .9 + 1.269 / sqrt(2) = 1.797, 12 has .4 + 1.269 = 1.669. Slot 6, sqrt(ln 6) =
    1.339: 02 has .9 + 1.339 / sqrt(3) = 1.673, 12 has 1.739."""
    fleet, selector = ready(3, UcbSettings(**IN_ORDER))
    chosen = [play(fleet, selector, 1)]
    for round_, reward in enumerate((0.2, 0.9, 0.4, 0.9, 0.9), start=2):
        chosen.append(play(fleet, selector, round_, reward))

    assert chosen == [[0, 1], [0, 2], [1, 2], [0, 2], [0, 2], [1, 2]]


@pytest.mark.parametrize("settings", [UcbSettings(), QuickInitUcbSettings()])
def test_too_many_sets_are_refused_with_a_way_out(settings):
    with pytest.raises(ScenarioError, match=r"server\.selector.*75,287,520.*fleet\.size.*'bp-ucb'"):
        settings.build().setup(fleet_of((10,) * 100, cohort=5))


def test_groups_first_then_the_set_whose_groups_did_best():
    """Groups 01, 23, 4 and 0 again, rewards .2, .6, .4: clients .2 .2 .6 .6 .4. Slot 4 plays 23
    (.6); its .1 makes a mean of .35 over two plays, and 24 and 34 have .5."""
    fleet, selector = ready(5, QuickInitUcbSettings(**IN_ORDER))
    chosen = [play(fleet, selector, 1)]
    for round_, reward in enumerate((0.2, 0.6, 0.4, 0.1), start=2):
        chosen.append(sorted(play(fleet, selector, round_, reward)))
    state = selector.state()

    assert chosen == [[0, 1], [2, 3], [0, 4], [2, 3], [2, 4]]
    assert state["client_reward"].tolist() == pytest.approx([0.2, 0.2, 0.6, 0.6, 0.4])
    sets = arms(5, 2).tolist()
    assert state["plays"].tolist() == [2 if arm == [2, 3] else 1 for arm in sets]
    assert state["means"][sets.index([2, 3])] == pytest.approx(0.35)
    assert state["means"][sets.index([0, 4])] == pytest.approx(0.3)


def test_the_groups_are_random_and_cover_all_clients():
    seen = set()
    for seed in range(8):
        fleet, selector = ready(6, QuickInitUcbSettings(slot_rounds=1), seed=seed)
        groups = [play(fleet, selector, 1)]
        groups += [play(fleet, selector, round_, 0.5) for round_ in (2, 3)]
        assert sorted(client for group in groups for client in group) == [0, 1, 2, 3, 4, 5]
        seen.add(tuple(groups[0]))

    assert len(seen) > 4


def test_absent_clients_are_passed_over_and_have_their_group_when_they_come():
    """0 is away at first: groups 12, then 3 filled up with 1; then the bandit among 1, 2, 3, where
    12 is as good as 13 and 23 is (.3 + .7) / 2 too; 0 comes back and is filled up with 1."""
    fleet, selector = ready(4, QuickInitUcbSettings(**IN_ORDER))
    there = [1, 2, 3]

    assert play(fleet, selector, 1, candidates=there) == [1, 2]
    assert play(fleet, selector, 2, 0.3, candidates=there) == [1, 3]
    assert play(fleet, selector, 3, 0.7, candidates=there) in ([1, 3], [2, 3])
    np.testing.assert_allclose(selector.state()["client_reward"], [math.nan, 0.3, 0.3, 0.7])
    assert play(fleet, selector, 4, 0.5) == [0, 1]
    play(fleet, selector, 5, 0.9)
    state = selector.state()
    assert state["client_reward"].tolist() == pytest.approx([0.9, 0.3, 0.3, 0.7])
    assert state["means"][:3].tolist() == pytest.approx([0.6, 0.6, 0.8])
    assert (state["plays"] > 0).all()


def test_rehearsed_groups_begin_with_the_same_model_and_cost_probes():
    """Groups 01 and 23, two rounds each. Their clients double what they get and add their id; the
    average of equal samples: 01 makes 0 -> .5 -> 1.5, 23 makes 0 -> 2.5 -> 7.5. Opinions .25, .75.
    The first slot is the bandit's: 23."""
    settings = QuickInitUcbSettings(slot_rounds=2, ties="lowest_id", cold_start="reset")
    fleet, selector = ready(4, settings)

    def answer(request, stage):
        is_opinion = request.work.kind is WorkKind.EVALUATE
        return report_of(request.client, loss=1.0, purpose=Purpose.PROBE)._replace(
            vector=None if is_opinion else 2 * request.parameters + np.float32(request.client),
            accuracy=(0.25 if request.parameters[0] == 1.5 else 0.75) if is_opinion else None,
        )

    stages, view = probed(selector, fleet, answer)
    asked: list[list[Any]] = [*stages]
    seen = [
        (stage[0].work.kind, [r.client for r in stage], {float(r.parameters[0]) for r in stage})
        for stage in asked
    ]
    all_clients = [0, 1, 2, 3]

    assert seen == [
        (WorkKind.TRAIN, [0, 1], {0.0}),
        (WorkKind.TRAIN, [0, 1], {0.5}),
        (WorkKind.EVALUATE, all_clients, {1.5}),
        (WorkKind.TRAIN, [2, 3], {0.0}),
        (WorkKind.TRAIN, [2, 3], {2.5}),
        (WorkKind.EVALUATE, all_clients, {7.5}),
    ]
    assert selector.select(view).tolist() == [2, 3]
    assert selector.state()["client_reward"].tolist() == [0.25, 0.25, 0.75, 0.75]
    assert selector.state()["plays"].tolist() == [1] * 6


def test_a_rehearsal_for_a_newcomer_is_not_taken_for_the_opinion_of_the_slot():
    settings = QuickInitUcbSettings(slot_rounds=1, ties="lowest_id", cold_start="reset")
    fleet, selector = ready(3, settings)

    def play(round_, candidates, opinions):
        """Opinions by the stage of their evaluation."""

        def answer(request, stage):
            report = report_of(request.client, loss=1.0, purpose=Purpose.PROBE)
            return report._replace(accuracy=opinions.get(stage))

        _, view = probed(selector, fleet, answer, round_=round_, candidates=candidates)
        chosen = selector.select(view).tolist()
        selector.observe(outcome_of(round_, [report_of(c, loss=1.0) for c in chosen]))
        return chosen

    # 2 is away: the group 01 has .5. Its slot has .7; then 2 comes, is rehearsed with 0, and has
    # .9. Arm 01: two plays, (.5 + .7) / 2 = .6; arms 02 and 12: (.5 + .9) / 2.
    assert play(1, [0, 1], {1: 0.5}) == [0, 1]
    assert play(2, [0, 1, 2], {0: 0.7, 2: 0.9}) == [0, 2]
    assert selector.state()["means"].tolist() == pytest.approx([0.6, 0.7, 0.7])
    assert selector.state()["plays"].tolist() == [2, 1, 1]


@pytest.mark.parametrize(("num_clients", "size"), [(1, 1), (5, 1), (5, 5), (6, 3), (8, 2)])
def test_arms_are_all_sets(num_clients, size):
    sets = arms(num_clients, size)

    assert sets.tolist() == [list(s) for s in itertools.combinations(range(num_clients), size)]


@pytest.mark.parametrize("size", [0, 6])
def test_a_set_has_at_least_one_client_and_at_most_all(size):
    with pytest.raises(ValueError, match=f"1 to 5 clients, got {size}"):
        arms(5, size)


def test_the_index_by_hand():
    # t = 10, mu = 1, ln 10 = 2.302585: .6 + sqrt(2.302585/4) = 1.358714, .9 + sqrt(2.302585)
    # = 2.417427, and the arm never played first of all.
    values = index(np.array([0.6, 0.9, 0.0]), np.array([4, 1, 0]), 10, 1.0)

    assert values == pytest.approx([1.358714, 2.417427, math.inf], abs=1e-6)
    assert index(np.array([0.6]), np.array([4]), 10, 0.01)[0] == pytest.approx(0.607587, abs=1e-6)
    assert index(np.array([0.6]), np.array([4]), 1, 1.0)[0] == 0.6


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 1.0)), max_size=30))
def test_means_are_those_of_the_rewards(history):
    means, plays = np.zeros(4), np.zeros(4, dtype=np.int64)
    for arm, reward in history:
        means, plays = rewarded(means, plays, np.array([arm]), np.array([reward]))
    of_arm = [[reward for a, reward in history if a == arm] for arm in range(4)]

    assert plays.tolist() == [len(rewards) for rewards in of_arm]
    assert means == pytest.approx([np.mean(r) if r else 0.0 for r in of_arm])


@pytest.mark.slow
def test_the_regret_stays_below_the_bound_of_theorem_1():
    # Coins of chance .8, .3, .3 and mu^2 = 3/2, for which the theorem holds: after T = 5000 slots
    # the expected regret is at most 8 |A| ln T / R_min + (pi^2/3 + 1) |A| R_max = 8*3*8.517/.5 +
    # 4.29*3*.5 = 415; uniform play loses 2/3 * .5 * 5000 = 1667.
    chances, horizon = np.array([0.8, 0.3, 0.3]), 5000
    stream = rng.stream(11, "coins")
    is_head = stream.random((horizon, 3)) < chances
    means, plays = np.zeros(3), np.zeros(3, dtype=np.int64)
    for slot in range(1, horizon + 1):
        arm = best(index(means, plays, slot, math.sqrt(1.5)), 1, stream.random(3))
        means, plays = rewarded(means, plays, arm, is_head[slot - 1, arm].astype(np.float64))
    regret = float(((0.8 - chances) * plays).sum())

    assert plays.sum() == horizon
    assert 0.0 < regret < 415.0


def test_first_estimates_by_hand():
    # Arms in order 01 02 03 04 12 13 14 23 24 34.
    of_clients = np.array([0.5, 0.7, 0.9, 0.5, 0.7])
    means = initial_means(arms(5, 2), of_clients)

    assert means == pytest.approx([0.6, 0.7, 0.5, 0.6, 0.8, 0.6, 0.7, 0.7, 0.8, 0.6])
    assert initial_means(arms(5, 2), of_clients, "sum") == pytest.approx(2 * means)
