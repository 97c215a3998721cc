"""Fleet in which half of the clients are better by construction, and episodes of FedMarl on it.

A round adds to the accuracy in proportion to the good ones among those that trained; the others add
nothing. Good clients are fast and have small losses, or they are slow and have large ones, so that
neither preference is right from the beginning.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fleetsim import rng
from fleetsim.contracts import Evaluation, FleetView, Purpose, Report, State
from fleetsim.selectors.fedmarl.selector import FedMarlSettings
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
