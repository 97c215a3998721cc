"""Favor learns: a small world in which some clients are better by construction.

Training pulls the model a quarter of the way to the client's optimum. The optimum of the good
clients is that of the validation samples; those of the others point anywhere. Accuracy is
1 - distance.
"""

import dataclasses

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Evaluation, Outcome, Purpose, Report, RoundOutcome, RoundView, State
from fleetsim.selectors.favor.settings import FavorSettings
from tests.selectors.rounds import met

NUM_CLIENTS, NUM_PARAMETERS, COHORT, ROUNDS = 8, 12, 3, 12
NUM_SAMPLES = (10,) * NUM_CLIENTS
CLIENTS = np.arange(NUM_CLIENTS)


class World:
    """Clients of one seed; every episode has other noise."""

    def __init__(self, seed: int):
        draw = rng.stream(seed, "tests/favor world")
        optima = draw.normal(size=(NUM_CLIENTS, NUM_PARAMETERS))
        optima /= np.linalg.norm(optima, axis=1, keepdims=True)
        self.good = np.sort(draw.permutation(NUM_CLIENTS)[:COHORT])
        optima[self.good] = optima[self.good[0]]
        self.optima = optima

    def evaluated(self, model) -> Evaluation:
        distance = float(np.linalg.norm(model - self.optima[self.good[0]]))
        return Evaluation(1.0 - min(1.0, distance), distance)

    def play(
        self, settings: FavorSettings, seed: int, learned: State | None = None
    ) -> tuple[State, float, float]:
        """Return what was learned, the share of good clients, and the last accuracy."""
        noise = rng.stream(seed, "tests/favor noise")
        model = np.zeros(NUM_PARAMETERS, dtype=np.float32)
        known = {"parameters": model, "validation": self.evaluated(model)}
        _, selector = met(settings, NUM_SAMPLES, cohort=COHORT, seed=seed, **known)
        if learned is not None:
            selector.take_up(learned)

        def trained(client: int, purpose: Purpose) -> Report:
            pull = 0.25 * (self.optima[client] - model)
            vector = model + pull + 0.02 * noise.normal(size=NUM_PARAMETERS)
            report = Report(client, purpose, Outcome.DELIVERED, 0.0, 1.0, 10, loss=1.0)
            return report._replace(vector=vector.astype(np.float32))

        chosen: list[int] = []
        for round_ in range(1, ROUNDS + 1):
            view = RoundView(round_, 0.0, COHORT, CLIENTS, np.array(NUM_SAMPLES), model)
            asked = [trained(request.client, Purpose.PROBE) for request in selector.probe(view)]
            cohort = selector.select(dataclasses.replace(view, reports=tuple(asked)))
            reports = tuple(trained(client, Purpose.TRAIN) for client in cohort.tolist())
            vectors = [report.vector for report in reports if report.vector is not None]
            model = np.mean(vectors, axis=0, dtype=np.float32)
            chosen += cohort.tolist()
            outcome = RoundOutcome(round_, 0.0, 1.0, cohort, reports, True, model)
            selector.observe(dataclasses.replace(outcome, validation=self.evaluated(model)))
        share = float(np.isin(chosen, self.good).mean())
        return selector.learned(), share, self.evaluated(model).accuracy or 0.0


@pytest.mark.slow
def test_a_trained_policy_prefers_the_better_clients_and_an_untrained_one_does_not():
    """Training as in the paper, one client a round; then the top 3 of 8, of which 3 are good."""
    learning = FavorSettings(action="client", components=8, hidden=64, steps_per_round=4)
    frozen = learning.model_copy(update={"learning": False})
    untrained, trained = [], []
    for seed in range(3):
        world, learned = World(seed), None
        for episode in range(50):
            learned, *_ = world.play(learning, 1000 * seed + episode, learned)
        untrained.append(world.play(frozen, 1000 * seed + 999)[1:])
        trained.append(world.play(frozen, 1000 * seed + 999, learned)[1:])
    share, accuracy = np.mean(trained, axis=0)
    share_before, accuracy_before = np.mean(untrained, axis=0)

    # At random 3 in 8.
    assert share_before < 0.6
    assert share > 0.7
    assert share > share_before + 0.2
    assert accuracy > accuracy_before + 0.15
    assert all(after >= before for (after, _), (before, _) in zip(trained, untrained, strict=True))
