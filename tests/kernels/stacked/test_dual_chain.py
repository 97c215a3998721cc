"""Sizes for which the first layers' dual form is faster; `test_stacks` compares it in training."""

import pytest

from fleetsim.kernels.batches import Length
from fleetsim.kernels.stacked.dual_chain import dual_form_is_faster
from fleetsim.learning.local.settings import LocalSettings
from tests.learning.side_by_side import local

WIDTHS = (784, 200, 200, 10)


@pytest.mark.parametrize(
    ("widths", "lengths", "chosen", "is_faster"),
    [
        (WIDTHS, [Length(600, 5)], local(50), True),
        # Of 5 epochs, one is trained.
        (WIDTHS, [Length(600, 5, 12)], local(50), False),
        (WIDTHS, [Length(900, 5)], local(50), False),
        (WIDTHS, [Length(600, 5)], local(50, mu=0.1, weight_decay=0.1), True),
        (WIDTHS, [Length(600, 5)], local(50, momentum=0.9), False),
        # What all of a stack are padded to is the largest's.
        (WIDTHS, [Length(2000, 5), *[Length(60, 5)] * 4], local(50), False),
        # 4 byte * 2,000^2 = 16 MB a client, 32 MB for all.
        ((9000, 200, 10), [Length(2000, 9)] * 2, local(50), True),
        ((9000, 200, 10), [Length(2000, 9)] * 3, local(50), False),
        ((784, 10), [Length(60, 5)], local(50), False),
        # 60 * 30 weights are too few, whatever is saved; 784 * 26 = 20,384 are enough.
        ((60, 30, 10), [Length(10, 50)], local(10), False),
        ((784, 25, 10), [Length(60, 5)], local(50), False),
        ((784, 26, 10), [Length(60, 5)], local(50), True),
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
    chosen = local(50)
    found = [
        dual_form_is_faster((200, 100, 10), [Length(100, epochs)], chosen)
        for epochs in (1, 2, 3, 4)
    ]

    assert found == [False, False, True, True]
