from __future__ import annotations

import pandas as pd
import pytest

from fleetsim.record.measures.cost_to_target import (
    energy_to_accuracy,
    rounds_to_accuracy,
    time_to_accuracy,
)

# Evaluated in rounds 2, 4 and 5; better in 4 than in 5.
ROUNDS = pd.DataFrame(
    {
        "round": [1, 2, 3, 4, 5],
        "finished_at_s": [10.0, 25.0, 31.0, 60.0, 61.0],
        "energy_total_j": [1.0, 4.0, 9.0, 16.0, 25.0],
        "accuracy": [float("nan"), 0.5, float("nan"), 0.8, 0.7],
    }
)


@pytest.mark.parametrize(
    ("target", "round_", "time_s", "energy_j"),
    [
        (0.3, 2, 25.0, 4.0),
        (0.5, 2, 25.0, 4.0),
        (0.6, 4, 60.0, 16.0),
        (0.8, 4, 60.0, 16.0),
        (0.81, None, None, None),
    ],
)
def test_first_evaluated_round_at_or_above_the_target_decides(
    target: float, round_: int | None, time_s: float | None, energy_j: float | None
):
    assert rounds_to_accuracy(ROUNDS, target) == round_
    assert time_to_accuracy(ROUNDS, target) == time_s
    assert energy_to_accuracy(ROUNDS, target) == energy_j


def test_run_without_training_or_without_rounds_never_gets_there():
    untrained = ROUNDS.assign(accuracy=float("nan"))

    assert time_to_accuracy(untrained, 0.1) is None
    assert energy_to_accuracy(ROUNDS.iloc[:0], 0.1) is None


@pytest.mark.parametrize("target", [0.0, -0.5, 85.0, 1.0001, float("nan")])
@pytest.mark.parametrize("metric", [rounds_to_accuracy, time_to_accuracy, energy_to_accuracy])
def test_target_must_be_a_fraction(metric, target: float):
    with pytest.raises(ValueError, match=rf"fraction in \(0, 1\], got {target!r}"):
        metric(ROUNDS, target)
