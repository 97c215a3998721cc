"""Counts from fractions are those of decimal arithmetic, whatever the fraction is in binary."""

import math
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from fleetsim.counts import ceil_product, floor_product

counts = st.integers(0, 10**9)


@given(st.integers(0, 5_000_000), st.integers(0, 6), counts)
@example(11, 1, 100)  # 1.1 * 100 is 110.00000000000001 in binary
@example(29, 2, 100)  # 0.29 * 100 is 28.999999999999996
@example(7, 2, 100)
def test_decimal_numbers_count_as_in_whole_number_arithmetic(digits, places, count):
    number = float(f"{digits}e-{places}")

    assert floor_product(number, count) == digits * count // 10**places
    assert ceil_product(number, count) == -(-digits * count // 10**places)
    assert floor_product(number, count, per=100) == digits * count // 10 ** (places + 2)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 1000))
def test_the_quotient_of_two_counts_gives_them_back(part, whole, times):
    assert floor_product(part / whole, whole * times) == part * times
    assert ceil_product(part / whole, whole * times) == part * times


@given(st.floats(0.0, 1e6), counts)
def test_any_number_is_exact_but_where_its_float_cannot_tell(number, count):
    exact = Fraction(number) * count
    slack = Fraction(math.ulp(number)) * count / 2

    assert exact - 1 - slack < floor_product(number, count) <= exact + slack
    assert exact - slack <= ceil_product(number, count) < exact + 1 + slack
