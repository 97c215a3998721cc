import pytest

from fleetsim.record.measures.cost_to_target import (
    energy_to_accuracy,
    rounds_to_accuracy,
    time_to_accuracy,
)
from tests.report.rows import round_frame, round_row

# Evaluated in rounds 2, 4 and 5; better in 4 than in 5. A round takes 10 s and 100 J.
ACCURACIES = (None, 0.5, None, 0.8, 0.7)
ROUNDS = round_frame(*(round_row(n, accuracy) for n, accuracy in enumerate(ACCURACIES, 1)))


@pytest.mark.parametrize(
    ("target", "round_"), [(0.3, 2), (0.5, 2), (0.6, 4), (0.8, 4), (0.81, None)]
)
def test_first_evaluated_round_at_or_above_the_target_decides(target: float, round_: int | None):
    assert rounds_to_accuracy(ROUNDS, target) == round_
    assert time_to_accuracy(ROUNDS, target) == (round_ and 10.0 * round_)
    assert energy_to_accuracy(ROUNDS, target) == (round_ and 100.0 * round_)


def test_run_without_training_or_without_rounds_never_gets_there():
    assert time_to_accuracy(round_frame(round_row(1)), 0.1) is None
    assert energy_to_accuracy(round_frame(), 0.1) is None


@pytest.mark.parametrize("target", [0.0, -0.5, 85.0, 1.0001, float("nan")])
def test_target_must_be_a_fraction(target: float):
    with pytest.raises(ValueError, match=rf"fraction in \(0, 1\], got {target!r}"):
        rounds_to_accuracy(ROUNDS, target)
