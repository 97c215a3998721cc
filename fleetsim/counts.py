"""Whole counts: batches of an epoch, and decimal fractions of counts (1.1 times 100 is 110).

In binary 1.1 * 100 is 110.00000000000001 and 0.29 * 100 is 28.999999999999996, so a ceiling or a
floor of the product is off by one. Quotients do not have this error: 110 / 100 is the float that
1.1 is read as, and likewise for every quotient of whole numbers. So counts are compared as
quotients. This also holds for 5 / 3 of 3.
"""

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Count = TypeVar("Count", int, "NDArray[np.int64]")


LastBatch = Literal["keep", "drop", "merge"]


class Batching(NamedTuple):
    """Rule by which the shuffled samples of an epoch are cut into batches.

    All batches but the last have `size` samples. Fewer samples than that are always one batch.

    >>> [Batching(50, last).sizes(101) for last in ("keep", "drop", "merge")]
    [[50, 50, 1], [50, 50], [50, 51]]
    """

    size: int
    last: LastBatch = "keep"
    """Use of the samples that are left: `keep` is a batch of their own; `drop` leaves them out;
    `merge` adds them to the last full batch."""

    @property
    def most(self) -> int:
        """Largest batch of any number of samples."""
        return 2 * self.size - 1 if self.last == "merge" else self.size

    def num_batches(self, num_samples: Count) -> Count:
        """Return the batches of one epoch; 0 without samples."""
        if self.last == "keep":
            return -(-num_samples // self.size)
        return num_samples // self.size + ((num_samples > 0) & (num_samples < self.size))

    def num_used(self, num_samples: Count) -> Count:
        """Return the samples in the batches of one epoch: the first of its order."""
        if self.last != "drop":
            return num_samples
        return num_samples - num_samples % self.size * (num_samples >= self.size)

    def size_of(self, batch: Count, num_samples: Count) -> Count:
        """Return the samples of a batch of an epoch; 0 is the first."""
        is_last = batch + 1 == self.num_batches(num_samples)
        more: Count = is_last * (self.num_used(num_samples) - (batch + 1) * self.size)
        return self.size + more

    def largest(self, num_samples: Count) -> Count:
        """Return the samples of the largest batch of an epoch; 0 without samples."""
        batches = self.num_batches(num_samples)
        return (batches > 0) * self.size_of((batches - 1) * (self.last == "merge"), num_samples)

    def sizes(self, num_samples: int) -> list[int]:
        """Return the samples of each batch of an epoch."""
        return [self.size_of(at, num_samples) for at in range(self.num_batches(num_samples))]


def ceil_product(number: float, count: int) -> int:
    """Return the least whole number m >= 0 with m / count >= number; 0 for a count of 0.

    Both are at least 0, and the number is finite.

    >>> ceil_product(1.1, 100), ceil_product(1.1, 101), ceil_product(5 / 3, 3)
    (110, 112, 5)
    """
    if count == 0:
        return 0
    whole = max(0, math.floor(number * count) - 1)
    while whole / count < number:
        whole += 1
    return whole


def floor_product(number: float, count: int, *, per: int = 1) -> int:
    """Return the largest whole number m with m * per / count <= number; 0 for a count of 0.

    As `ceil_product`; `per` is 1 for a fraction, 100 for percent.

    >>> floor_product(0.29, 100), floor_product(0.29, 99), floor_product(1 / 3, 9)
    (29, 28, 3)
    >>> floor_product(29.0, 100, per=100)
    29
    """
    if count == 0:
        return 0
    whole = math.ceil(number * count / per) + 1
    while whole * per / count > number:
        whole -= 1
    return whole
