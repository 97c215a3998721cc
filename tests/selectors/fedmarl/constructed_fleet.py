"""Fleet in which half of the clients are better by construction, and episodes of FedMarl on it.

A round adds to the accuracy in proportion to the good ones among those that trained; the others add
nothing. Good clients are fast and have small losses, or they are slow and have large ones, so that
neither preference is right from the beginning.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Evaluation,
    FleetView,
    Outcome,
    Purpose,
    Report,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.selectors.fedmarl.selector import FedMarlSelector, FedMarlSettings

SIZE, COHORT, ROUNDS = 20, 4, 25
IS_GOOD = np.arange(SIZE) % 2 == 0
FIRST_ACCURACY, GAIN = 0.1, 0.03


class Kept(NamedTuple):
    """Clients that continued in an episode."""

    good_share: float
    """Share of the good clients among them."""
    num_by_round: float


def met(settings: FedMarlSettings, seed: int) -> FedMarlSelector:
    selector = settings.build()
    selector.setup(
        FleetView(
            seed=seed,
            num_samples=np.full(SIZE, 40),
            cohort=COHORT,
            epochs=5,
            batch_size=10,
            learning_rate=0.1,
            planned_rounds=ROUNDS,
            parameters=np.zeros(1, dtype=np.float32),
            payload_byte=1_000,
            validation=Evaluation(FIRST_ACCURACY, 2.3),
        )
    )
    return selector


def play(selector: FedMarlSelector, seed: int, *, good_are_fast: bool = True) -> Kept:
    """Play an episode; return who continued."""
    accuracy, num_good, num_kept = FIRST_ACCURACY, 0, 0
    for round_ in range(1, ROUNDS + 1):
        draw = rng.stream(seed, "tests/constructed fleet", round_)
        noise = np.exp(draw.normal(0.0, 0.3, (2, SIZE)))
        is_fast = good_are_fast == IS_GOOD
        loss = np.where(is_fast, 0.5, 2.0) * noise[0]
        epoch_s = np.where(is_fast, 1.0, 3.0) * noise[1]
        clients = np.arange(SIZE)
        view = RoundView(
            round=round_,
            now_s=100.0 * round_,
            wanted=COHORT,
            candidates=clients,
            num_samples=np.full(SIZE, 40),
            parameters=np.zeros(1, dtype=np.float32),
        )
        asked = [request.client for request in selector.probe(view)]
        reports = tuple(
            _report(client, Purpose.PROBE, epoch_s[client], 0.0, loss[client]) for client in asked
        )
        answer = selector.select(replace(view, reports=reports))
        assert isinstance(answer, Cohort)
        kept = answer.clients
        num_good += int(IS_GOOD[kept].sum())
        num_kept += kept.size
        accuracy += GAIN * IS_GOOD[kept].sum() / COHORT + draw.normal(0.0, 0.002)
        selector.observe(
            RoundOutcome(
                round=round_,
                started_at_s=view.now_s,
                finished_at_s=view.now_s + 50.0,
                selected=kept,
                reports=tuple(
                    _report(client, Purpose.TRAIN, 4.0 * epoch_s[client], 1.0, loss[client])
                    for client in kept.tolist()
                ),
                aggregated=True,
                parameters=view.parameters,
                validation=Evaluation(float(accuracy), 1.0),
            )
        )
    return Kept(num_good / num_kept, num_kept / ROUNDS)


def trained(
    settings: FedMarlSettings, seed: int, episodes: int, *, good_are_fast: bool = True
) -> State:
    """Return what agents have learned in some episodes, each with a seed of its own."""
    learned: State | None = None
    for episode in range(episodes):
        selector = met(settings, 1_000 * seed + episode)
        if learned is not None:
            selector.take_up(learned)
        play(selector, 1_000 * seed + episode, good_are_fast=good_are_fast)
        learned = selector.learned()
    assert learned is not None
    return learned


def _report(
    client: int, purpose: Purpose, compute_s: float, upload_s: float, loss: float
) -> Report:
    return Report(
        client=client,
        purpose=purpose,
        outcome=Outcome.DELIVERED,
        dispatched_at_s=0.0,
        finished_at_s=compute_s + upload_s,
        num_samples=40,
        compute_s=compute_s,
        upload_s=upload_s,
        loss=loss,
    )
