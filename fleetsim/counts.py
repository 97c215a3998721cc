"""Whole counts: batches of samples, and decimal fractions of counts (1.1 times 100 is 110).

In binary 1.1 * 100 is 110.00000000000001 and 0.29 * 100 is 28.999999999999996, so a ceiling or a
floor of the product is off by one. Quotients do not have this error: 110 / 100 is the float that
1.1 is read as, and likewise for every quotient of whole numbers. So counts are compared as
quotients. This also holds for 5 / 3 of 3.
"""

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Count = TypeVar("Count", int, "NDArray[np.int64]")


def num_batches(num_samples: Count, batch_size: int) -> Count:
    """Return the batches of one epoch, of which the last may be smaller; 0 without samples.

    >>> num_batches(101, 50), num_batches(100, 50)
    (3, 2)
    """
    return -(-num_samples // batch_size)


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
