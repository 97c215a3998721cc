from __future__ import annotations

import numpy as np
import pytest
import torch

from fleetsim.learning.kernels.stacked.single_layer import SingleLayerStack, single_layer_is_faster
from fleetsim.learning.local.settings import LocalSettings, SgdSettings


def settings_of(*, momentum: float = 0.0, mu: float = 0.0) -> LocalSettings:
    sgd = SgdSettings(learning_rate=0.5, momentum=momentum, weight_decay=0.1 if mu else 0.0)
    return LocalSettings(epochs=1, batch_size=4, optimizer=sgd, proximal_mu=mu)


def test_one_step_from_zero_by_hand() -> None:
    """From w = 0 all 16 classes have probability 1/16, so the gradient is
    (onehot(y) - 1/16) [x, 1].

    A batch of 4 equal samples x = (2, 4), y = 3, rate 0.5: 15/32 x for class 3, -1/32 x for others.
    """
    samples = torch.tensor([[2.0, 4.0]], dtype=torch.float64)
    base = np.zeros(3 * 16, dtype=np.float32)
    stack = SingleLayerStack((2, 16), [base], samples, settings_of(), batch=4)
    likelihoods = torch.empty(1, 4, dtype=torch.float64)
    labels, weights = torch.full((1, 4), 3), torch.full((1, 4), 0.25, dtype=torch.float64)
    stack.step(torch.zeros(4, dtype=torch.int64), labels, weights, likelihoods)
    vector = stack.vectors()[0]
    gradient = np.where(np.arange(16) == 3, 15.0, -1.0) / 32.0

    np.testing.assert_allclose(
        vector[:32].reshape(16, 2), np.outer(gradient, [2.0, 4.0]), rtol=1e-12
    )
    np.testing.assert_allclose(vector[32:], gradient, rtol=1e-12)
    np.testing.assert_allclose(likelihoods, -np.log(16.0), rtol=1e-12)


def test_a_base_is_given_back_as_it_came() -> None:
    bases = [np.arange(44, dtype=np.float32), -np.arange(44, dtype=np.float32)]
    chosen = [bases[1], bases[0], bases[1]]
    samples = torch.zeros(1, 3)
    stack = SingleLayerStack((3, 11), chosen, samples, settings_of(), batch=4)

    np.testing.assert_array_equal(stack.vectors(), np.stack(chosen))


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_classes_that_fill_up_stay_without_weight(mu: float) -> None:
    """Over steps of momentum, decay and pull, and when a prefix of the models goes on alone."""
    draw = np.random.Generator(np.random.Philox(3))
    bases = [draw.normal(size=44).astype(np.float32) for _ in range(3)]
    samples = torch.from_numpy(draw.normal(size=(9, 3)))
    chosen = settings_of(momentum=0.9, mu=mu)
    stack = SingleLayerStack((3, 11), bases, samples, chosen, batch=4)
    for num in (3, 3, 2, 1):
        rows = torch.from_numpy(draw.integers(9, size=4 * num))
        labels = torch.from_numpy(draw.integers(11, size=(1, 4 * num)))
        stack.step(rows, labels, torch.full((1, 4 * num), 0.25, dtype=torch.float64))

    assert stack._models.shape == (3, 4, 16)
    assert not stack._models[:, :, 11:].any()


@pytest.mark.parametrize(
    ("sizes", "is_faster"),
    [
        ((60, 10, 10), True),
        ((60, 10, 16), False),
        ((60, 10, 3), False),
        ((129, 10, 10), False),
        ((60, 9, 10), False),
        ((60, 20, 10), True),
        ((60, 19, 10), False),
    ],
)
def test_the_sizes_for_which_it_is_faster(sizes: tuple[int, int, int], is_faster: bool) -> None:
    """From 4 to 15 samples a batch, up to 128 features, at most 1.6 times the classes."""
    assert single_layer_is_faster(*sizes) is is_faster
