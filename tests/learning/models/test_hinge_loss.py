from collections import OrderedDict
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.kernels.conv.channels_last import form_of
from fleetsim.kernels.stacked.score_gradients import ScoreBatch, writer_of
from fleetsim.learning.local import local_sgd
from fleetsim.learning.models.model_kind import Hinge
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import SvmSettings
from fleetsim.learning.models.small import LinearSvm

every_hinge = pytest.mark.parametrize("hinge", get_args(Hinge))

RIGHT = torch.tensor([1])


def hinge_losses(hinge: Hinge, scores: Tensor, labels: Tensor) -> Tensor:
    return LinearSvm(OrderedDict(), hinge).losses(scores, labels)


@every_hinge
def test_a_margin_of_one_costs_nothing_and_moves_nothing(hinge: Hinge) -> None:
    scores = torch.tensor([[-1.5, 1.5, -2.0]], requires_grad=True)

    result = hinge_losses(hinge, scores, RIGHT)
    (gradient,) = torch.autograd.grad(result.sum(), scores)

    assert result.tolist() == [0.0]
    assert not gradient.any()


score_tables = st.integers(0, 10_000).map(
    lambda seed: 2 * torch.from_numpy(rng.stream(seed, "test/scores").normal(size=(7, 5)))
)
labels_of_seven = torch.tensor([0, 1, 2, 3, 4, 0, 1])


@given(score_tables)
def test_losses_are_those_of_slow_loops(scores: Tensor) -> None:
    table, right = scores.tolist(), labels_of_seven.tolist()
    rivals = [
        [1 + s - row[y] for j, s in enumerate(row) if j != y]
        for row, y in zip(table, right, strict=True)
    ]
    expected: dict[Hinge, list[float]] = {
        "crammer-singer": [max(0.0, *some) for some in rivals],
        "weston-watkins": [sum(max(0.0, margin) for margin in some) for some in rivals],
        "one-vs-rest": [
            sum(max(0.0, 1 - (s if j == y else -s)) for j, s in enumerate(row))
            for row, y in zip(table, right, strict=True)
        ],
    }

    for hinge, losses in expected.items():
        result = hinge_losses(hinge, scores, labels_of_seven)
        assert result.tolist() == pytest.approx(losses, rel=1e-12, abs=1e-15)


@every_hinge
@given(scores=score_tables)
def test_written_slopes_are_those_of_autograd(hinge: Hinge, scores: Tensor) -> None:
    weights = torch.tensor([0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 0.0], dtype=torch.float64)
    leaf = scores.clone().requires_grad_()
    losses = hinge_losses(hinge, leaf, labels_of_seven)
    (gradient,) = torch.autograd.grad((losses * weights).sum(), leaf)
    by_class = scores.t().contiguous()
    # What was in the memory before must not matter.
    likelihoods = torch.full((1, 7), torch.nan, dtype=torch.float64)
    out, first, second = (torch.full_like(by_class, torch.nan) for _ in range(3))

    labels = labels_of_seven.view(1, -1)
    batch = ScoreBatch(by_class, labels, weights.view(1, -1), likelihoods, (first, second), out)
    writer_of(hinge)(batch)

    assert torch.equal(out.t(), -gradient)
    assert (-likelihoods[0]).tolist() == pytest.approx(losses.tolist(), rel=1e-12, abs=1e-15)


def test_gradient_and_evaluation_are_of_the_hinge_loss_too() -> None:
    machine = build_model(SvmSettings(), SampleForm((1,), 2), seed=1)
    base = np.array([0, 0, 0, 0.5], dtype=np.float32)
    samples = torch.tensor([[2.0], [1.0]]), torch.tensor([0, 1])

    gradient = local_sgd.gradient(machine, base, *samples)
    evaluated = local_sgd.evaluate(machine, base, *samples)

    # Margins 1.5 and 0.5: the slopes of both samples cancel in the biases, not in the weights.
    assert gradient.vector is not None
    assert gradient.vector.tolist() == pytest.approx([-0.5, 0.5, 0.0, 0.0])
    assert evaluated.loss == gradient.loss == pytest.approx(1.0)
    assert evaluated.accuracy == 0.5


def test_a_form_that_would_lose_the_loss_is_refused():
    machine = build_model(SvmSettings(), SampleForm((1, 4, 4), 2), seed=1)
    with pytest.raises(TypeError, match="LinearSvm has a loss of its own"):
        form_of(machine, (1, 4, 4), 4)
