"""First layers in their dual form: an example by hand, and the sizes for which it is faster.

That it equals the plain form is tested beside the stacks (`test_stacked`).
"""

import numpy as np
import pytest
import torch

from fleetsim.kernels.batches import Length
from fleetsim.kernels.device_samples import Samples
from fleetsim.kernels.stacked.dual_chain import DualChainStack, dual_form_is_faster
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings

CPU = torch.device("cpu")


def settings_of(
    rate: float = 0.5, decay: float = 0.0, mu: float = 0.0, momentum: float = 0.0, batch: int = 1
) -> LocalSettings:
    sgd = SgdSettings(learning_rate=rate, weight_decay=decay, momentum=momentum)
    return LocalSettings(epochs=1, batch_size=batch, optimizer=sgd, proximal_mu=mu)


@pytest.mark.parametrize(("decay", "mu"), [(0.0, 0.0), (0.2, 0.0), (0.2, 0.3)])
def test_two_steps_by_hand(decay: float, mu: float) -> None:
    """One unit, two classes, rate r = 1/2, batches of one sample: x = (1, 2), then (3, -1).

    First layer w0 = (1, 1), b0 = 1; above it u = (1, -1), no bias. z = w x + b > 0 in both steps,
    the scores are (z u0, z u1), their gradients (1 - p, p - 1) for class 0, with
    p = 1 / (1 + exp(-d z)), d = u0 - u1 the difference of the weights above; that of z is
    s = (1 - p) d.

    Step 1: z = 1 + 2 + 1 = 4, d = 2: s = 2 (1 - p), p = 1 / (1 + exp(-8)).
    Weights above: gradient of u0 is (1 - p) z, of u1 minus that; decay d u, pull 0 at the start.
    """
    rate = 0.5
    base = np.array([1, 1, 1, 1, -1, 0, 0], dtype=np.float32)
    w, b, u, c = np.array([1.0, 1.0]), 1.0, np.array([1.0, -1.0]), np.zeros(2)
    for x in (np.array([1.0, 2.0]), np.array([3.0, -1.0])):
        z = w @ x + b
        scores = u * z + c
        p = np.exp(scores) / np.exp(scores).sum()
        assert z > 0
        gradient = np.array([1.0, 0.0]) - p
        s = gradient @ u
        w, b, u, c = (
            value + rate * (up - decay * value - mu * (value - start))
            for value, up, start in (
                (w, s * x, np.array([1.0, 1.0])),
                (b, s, 1.0),
                (u, gradient * z, np.array([1.0, -1.0])),
                (c, gradient, np.zeros(2)),
            )
        )
    samples = Samples(np.array([[1.0, 2.0], [3.0, -1.0]]), CPU)
    chosen = settings_of(rate, decay, mu)
    own = torch.tensor([[0, 1]])
    stack = DualChainStack((2, 1, 2), [base], samples, chosen, batch=1, own=own)
    first = torch.empty(1, 1, dtype=torch.float64)
    for row, likelihoods in ((0, first), (1, None)):
        stack.step(
            torch.tensor([row]),
            torch.zeros(1, 1, dtype=torch.int64),
            torch.ones(1, 1, dtype=torch.float64),
            likelihoods,
        )

    np.testing.assert_allclose(stack.vectors()[0], [*w, b, *u, *c], rtol=1e-12)
    np.testing.assert_allclose(first.item(), -np.log1p(np.exp(-8.0)), rtol=1e-12)


def test_a_base_is_given_back_as_it_came() -> None:
    size = (3 + 1) * 2 + (2 + 1) * 2
    bases = [np.arange(size, dtype=np.float32), -np.arange(size, dtype=np.float32)]
    chosen = [bases[1], bases[0], bases[1]]
    own = torch.arange(6).view(3, 2)
    stack = DualChainStack(
        (3, 2, 2),
        chosen,
        Samples(np.zeros((6, 3), np.float32), CPU),
        settings_of(),
        batch=4,
        own=own,
    )

    np.testing.assert_array_equal(stack.vectors(), np.stack(chosen))


@pytest.mark.parametrize(("widths", "momentum"), [((3, 2), 0.0), ((3, 2, 2), 0.9)])
def test_what_has_no_dual_form_is_refused(widths: tuple[int, ...], momentum: float) -> None:
    own, base = torch.zeros(1, 1, dtype=torch.int64), np.zeros(14, dtype=np.float32)
    chosen = settings_of(momentum=momentum)

    with pytest.raises(ValueError, match="a layer below others, without momentum"):
        DualChainStack(
            widths, [base], Samples(np.zeros((1, 3), np.float32), CPU), chosen, batch=1, own=own
        )


WIDTHS = (784, 200, 200, 10)


@pytest.mark.parametrize(
    ("widths", "lengths", "chosen", "is_faster"),
    [
        (WIDTHS, [Length(600, 5)], settings_of(batch=50), True),
        # Of 5 epochs, one is trained.
        (WIDTHS, [Length(600, 5, 12)], settings_of(batch=50), False),
        (WIDTHS, [Length(900, 5)], settings_of(batch=50), False),
        (WIDTHS, [Length(600, 5)], settings_of(batch=50, mu=0.1, decay=0.1), True),
        (WIDTHS, [Length(600, 5)], settings_of(batch=50, momentum=0.9), False),
        # What all of a stack are padded to is the largest's.
        (WIDTHS, [Length(2000, 5), *[Length(60, 5)] * 4], settings_of(batch=50), False),
        # 4 byte * 2,000^2 = 16 MB a client, 32 MB for all.
        ((9000, 200, 10), [Length(2000, 9)] * 2, settings_of(batch=50), True),
        ((9000, 200, 10), [Length(2000, 9)] * 3, settings_of(batch=50), False),
        ((784, 10), [Length(60, 5)], settings_of(batch=50), False),
        # 60 * 30 weights are too few, whatever is saved; 784 * 26 = 20,384 are enough.
        ((60, 30, 10), [Length(10, 50)], settings_of(batch=10), False),
        ((784, 25, 10), [Length(60, 5)], settings_of(batch=50), False),
        ((784, 26, 10), [Length(60, 5)], settings_of(batch=50), True),
    ],
)
def test_the_sizes_for_which_the_dual_form_is_faster(
    widths: tuple[int, ...], lengths: list[Length], chosen: LocalSettings, is_faster: bool
) -> None:
    assert dual_form_is_faster(widths, lengths, chosen) is is_faster


def test_the_rule_counts_the_arithmetic() -> None:
    """Layer (200, 100), n = 100 samples, E epochs of 2 batches of 50.

    Plain 4 * 100 E * 200 * 100 = 8e6 E. Dual: X X^T 100 * 200 * 200 = 4e6, X V and V
    4 * 100 * 200 * 100 = 8e6, steps 2 * 100 E * 100 * 100 = 2e6 E. 12e6 + 2e6 E <= 6.4e6 E from
    E = 2.73 on.
    """
    chosen = settings_of(batch=50)
    found = [
        dual_form_is_faster((200, 100, 10), [Length(100, epochs)], chosen)
        for epochs in (1, 2, 3, 4)
    ]

    assert found == [False, False, True, True]
