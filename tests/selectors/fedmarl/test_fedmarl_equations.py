"""Equations of FedMarl by hand, a step of learning on one hidden unit, and states of agents."""

import itertools
import math
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Evaluation, FleetView, Purpose, Report, State
from fleetsim.selectors.fedmarl.equations import (
    advantages,
    best_team_value,
    joint_action,
    processing_latency_s,
    relative_latency,
    team_target,
    team_value,
    utility,
)
from fleetsim.selectors.fedmarl.network import improved
from fleetsim.selectors.fedmarl.observations import NO_STATES, Transition, agent_states, relative
from fleetsim.selectors.fedmarl.settings import FedMarlSettings
from tests.selectors import rounds


def floats(*rows) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.5, 1.0, 50.0])
def test_utility_is_ten_times_a_hyperbolic_tangent(accuracy):
    # 10 - 20 / (1 + e^y) = 10 (e^y - 1) / (e^y + 1) = 10 tanh(y / 2).
    # It is almost linear in fractions (e^0.35 = 1.41907), and flat in per cent.
    assert utility(accuracy) == pytest.approx(10.0 * math.tanh(0.175 * accuracy))
    assert utility(1.0) == pytest.approx(10.0 - 20.0 / 2.41907, abs=1e-4)


def test_latency_is_the_longest_probe_and_then_the_longest_rest_and_upload_of_those_that_continue():
    probe_s, rest_s = np.array([2.0, 5.0, 3.0]), np.array([8.0, 90.0, 4.0])
    upload_s = np.array([1.0, 90.0, 7.0])

    # Client 1 has the longest probe and stops: 5 + max(8 + 1, 4 + 7).
    assert processing_latency_s(probe_s, rest_s, upload_s, np.array([True, False, True])) == 16.0
    assert processing_latency_s(probe_s, rest_s, upload_s, np.zeros(3, dtype=bool)) == 5.0
    # Five epochs at most of 5 s each: 16 of 25.
    assert (relative_latency(16.0, 5.0, 5), relative_latency(16.0, 0.0, 5)) == (0.64, 0.0)


VALUES = floats([1.0, 1.5], [2.0, -1.0], [0.5, 0.75])


def test_the_target_by_hand():
    assert team_value(VALUES, np.zeros(3, dtype=bool)) == 3.5
    # The best joint action is continue, stop, continue; with one wanted the middle and last stop.
    assert team_target(-0.5, VALUES, 2, 0.9) == pytest.approx(-0.5 + 0.9 * 4.25)
    assert team_target(-0.5, VALUES, 1, 0.9) == pytest.approx(-0.5 + 0.9 * 4.0)
    # If all prefer to stop, the one that loses least must continue: 1 + 2 - 0.5 - 0.25.
    reluctant = floats([1.0, 0.0], [2.0, 1.0], [0.0, -0.25])
    assert team_target(0.0, reluctant, 2, 1.0) == pytest.approx(1.0 + 2.0 - 0.25)
    assert team_target(-0.5, VALUES[:0], 2, 0.9) == -0.5


@pytest.mark.parametrize("wanted", [1, 2, 5, 9])
def test_the_joint_action_has_the_largest_sum_of_all_that_are_allowed(wanted):
    for seed in range(20):
        values = rng.stream(seed, "tests/values").normal(size=(5, 2)).astype(np.float32)
        allowed = [
            np.array(actions)
            for actions in itertools.product([False, True], repeat=5)
            if 1 <= sum(actions) <= wanted
        ]

        best = joint_action(advantages(values), wanted, np.arange(5.0))
        assert 1 <= best.sum() <= wanted
        largest = max(team_value(values, other) for other in allowed)
        assert team_value(values, best) == largest
        assert best_team_value(values, wanted) == pytest.approx(largest, rel=1e-6)


def test_equal_advantages_go_by_their_keys_and_no_preference_is_to_continue():
    keys = np.array([0.4, 0.1, 0.3, 0.2])

    assert joint_action(np.zeros(4), 2, keys).tolist() == [False, True, False, True]
    assert joint_action(np.full(4, -1.0), 3, keys).tolist() == [False, True, False, False]
    assert joint_action(np.zeros(2), 3, keys[:2]).tolist() == [True, True]


ONE_UNIT = {
    "hidden/weight": floats([1, 0, 0, 0, 0, 0]),
    "hidden/bias": np.zeros(1, dtype=np.float32),
    "output/weight": floats([2], [3]),
    "output/bias": floats(0.0, 0.5).reshape(2),
}
# Units 1 and 2: the first stops for 2, the second continues for 3 * 2 + 0.5. Q_tot is 8.5.
PAIR = Transition(
    floats([1, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0]), np.array([False, True]), 0.0, NO_STATES, 1
)
# One agent of unit 4 that continues: 12.5.
LONE = Transition(floats([4, 0, 0, 0, 0, 0]), np.array([True]), 0.0, NO_STATES, 1)


def test_the_loss_and_the_first_step_of_adam_by_hand():
    batch = [PAIR, LONE], np.array([9.5, 10.5])
    network, moments, losses = improved(ONE_UNIT, {}, 0, [batch], 0.01)

    # Errors -1 and 2: (1 + 4) / 2, whose gradient in the two sums is -1 and 2. Times their inputs:
    # stop: -1 * 1; continue: -1 * 2 + 2 * 4; biases: -1, -1 + 2; unit: -1 * (2 * 1 + 3 * 2) + 2 * 3
    # * 4.
    gradients: dict[str, list[Any]] = {
        "output/weight": [[-1.0], [6.0]],
        "output/bias": [-1.0, 1.0],
        "hidden/weight": [[16.0, 0, 0, 0, 0, 0]],
        "hidden/bias": [-1.0 * (2 + 3) + 2.0 * 3],
    }
    assert losses == [2.5]
    for name, gradient in gradients.items():
        # Moments are a tenth of the gradient and a thousandth of its square, in the first step; so
        # the step is the learning rate against the sign.
        expected = ONE_UNIT[name] - 0.01 * np.sign(gradient)
        np.testing.assert_allclose(network[name], expected, rtol=1e-5)
        np.testing.assert_allclose(moments[f"exp_avg/{name}"], 0.1 * np.array(gradient), rtol=1e-5)
        np.testing.assert_allclose(
            moments[f"exp_avg_sq/{name}"], 0.001 * np.square(gradient), rtol=1e-5
        )


def test_two_steps_at_once_are_one_and_then_one():
    batches = [([PAIR, LONE], np.array([9.5, 10.5])), ([LONE], np.array([0.0]))]
    network, moments, losses = improved(ONE_UNIT, {}, 0, batches, 0.01)
    between, moments_between, first_losses = improved(ONE_UNIT, {}, 0, batches[:1], 0.01)
    *second, second_losses = improved(between, moments_between, 1, batches[1:], 0.01)

    assert losses == first_losses + second_losses
    for one, other in zip((network, moments), second, strict=True):
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name])
    assert network["output/bias"].tolist() != between["output/bias"].tolist()
    assert ONE_UNIT["output/bias"].tolist() == [0.0, 0.5], "the network that was given stays"


THREE: dict[str, Any] = {
    "loss": np.array([2.0, 1.0, 4.0]),
    "probe_s": np.array([10.0, 30.0, 20.0]),
    "upload_s": np.array([np.nan, 4.0, 1.0]),
    "num_uploads": np.array([0, 5, 2]),
    "num_samples": np.array([100, 50, 100]),
    "round_": 11,
    "num_rounds": 44,
}


def test_states_by_hand():
    two = math.log(2.0)
    expected = [
        # Uploads of 4 s and 1 s: their median is 2 s, in logarithms.
        [0.0, -two, 0.0, 0.0, 0.0, 0.25],
        [-two, math.log(1.5), two, 0.5, -two, 0.25],
        [two, 0.0, -two, 0.2, 0.0, 0.25],
    ]

    np.testing.assert_allclose(agent_states(**THREE), expected, atol=1e-7)


@pytest.mark.parametrize("factor", [1e-6, 0.5, 1000.0])
def test_a_fleet_that_is_slower_or_larger_has_the_same_states(factor):
    scaled = {key: THREE[key] * factor for key in ("loss", "probe_s", "upload_s", "num_samples")}

    np.testing.assert_allclose(
        agent_states(**THREE | scaled), agent_states(**THREE), rtol=1e-5, atol=1e-6
    )


def test_the_first_round_and_those_after_the_last_one_planned():
    first = agent_states(**THREE | {"round_": 1, "num_uploads": np.zeros(3, dtype=np.int64)})
    late = agent_states(**THREE | {"round_": 90})

    assert first[:, 3].tolist() == [0.0, 0.0, 0.0]
    assert late[:, 5].tolist() == [1.0, 1.0, 1.0]


def test_what_is_not_known_counts_as_the_median_and_extremes_are_limited():
    assert relative(np.full(3, np.nan)).tolist() == [0.0, 0.0, 0.0]
    assert relative(np.zeros(2)).tolist() == [0.0, 0.0]
    assert relative(np.array([])).tolist() == []
    assert relative(np.array([np.inf, 1.0, 1e300, 0.0, 1.0])).tolist() == [0.0, 0.0, 3.0, -3.0, 0.0]


SIZE, COHORT, ROUNDS = 20, 4, 25
IS_GOOD = np.arange(SIZE) % 2 == 0
FIRST_ACCURACY, GAIN = 0.1, 0.03


class Kept(NamedTuple):
    """Clients that continued in an episode."""

    good_share: float
    """Share of the good clients among them."""
    num_by_round: float


def met(settings: FedMarlSettings, seed: int) -> tuple[FleetView, Any]:
    known = {"validation": Evaluation(FIRST_ACCURACY, 2.3), "payload_byte": 1_000}
    plan = {"seed": seed, "cohort": COHORT, "epochs": 5, "planned_rounds": ROUNDS}
    return rounds.met(settings, (40,) * SIZE, **plan, **known)


def play(fleet: FleetView, selector: Any, seed: int, *, good_are_fast: bool = True) -> Kept:
    """Play an episode; return who continued."""
    accuracy, num_good, num_kept = FIRST_ACCURACY, 0, 0
    for round_ in range(1, ROUNDS + 1):
        draw = rng.stream(seed, "tests/constructed fleet", round_)
        noise = np.exp(draw.normal(0.0, 0.3, (2, SIZE)))
        is_fast = good_are_fast == IS_GOOD
        loss = np.where(is_fast, 0.5, 2.0) * noise[0]
        epoch_s = np.where(is_fast, 1.0, 3.0) * noise[1]
        asked = selector.probe(rounds.view_of(fleet, round_=round_))
        probes = [_report(r.client, Purpose.PROBE, epoch_s, 0.0, loss) for r in asked]
        kept = selector.select(rounds.view_of(fleet, round_=round_, reports=probes)).clients
        num_good += int(IS_GOOD[kept].sum())
        num_kept += kept.size
        accuracy += GAIN * IS_GOOD[kept].sum() / COHORT + draw.normal(0.0, 0.002)
        done = [_report(k, Purpose.TRAIN, 4.0 * epoch_s, 1.0, loss) for k in kept.tolist()]
        outcome = rounds.outcome_of(round_, done)
        selector.observe(replace(outcome, validation=Evaluation(float(accuracy), 1.0)))
    return Kept(num_good / num_kept, num_kept / ROUNDS)


def trained(
    settings: FedMarlSettings, seed: int, episodes: int, *, good_are_fast: bool = True
) -> State:
    """Return what agents have learned in some episodes, each with a seed of its own."""
    learned: State = {}
    for episode in range(episodes):
        fleet, selector = met(settings, 1_000 * seed + episode)
        if learned:
            selector.take_up(learned)
        play(fleet, selector, 1_000 * seed + episode, good_are_fast=good_are_fast)
        learned = selector.learned()
    return learned


def _report(client: int, purpose: Purpose, computing_s: Any, upload_s: float, loss: Any) -> Report:
    """Report of a client, whose seconds and loss are among those of all."""
    compute_s = float(computing_s[client])
    report = rounds.report_of(
        client, loss=loss[client], duration_s=compute_s + upload_s, num_samples=40, purpose=purpose
    )
    return report._replace(compute_s=compute_s, upload_s=upload_s)


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
