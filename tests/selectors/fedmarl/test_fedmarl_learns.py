"""FedMarl's agents learn which clients are worth their training, over several seeds.

Half of the clients are better by construction. A round adds to the accuracy in proportion to the
good ones among those that trained; the others add nothing. Good clients are fast and have small
losses, or they are slow and have large ones, so that neither preference is right from the
beginning. Without learning all of five seeds are above untrained agents with a chance of 1 / 32.
"""

from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Evaluation, FleetView, Purpose, Report, State
from fleetsim.selectors.fedmarl.settings import FedMarlSettings
from tests.selectors import rounds

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
