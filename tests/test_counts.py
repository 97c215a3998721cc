"""Counts from fractions are those of decimal arithmetic, whatever the fraction is in binary."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.counts import Batching, ceil_product, floor_product

counts = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("last", "expected"),
    {
        "keep": {1: [1], 3: [3], 4: [4], 5: [4, 1], 8: [4, 4], 9: [4, 4, 1]},
        "drop": {1: [1], 3: [3], 4: [4], 5: [4], 8: [4, 4], 9: [4, 4]},
        "merge": {1: [1], 3: [3], 4: [4], 5: [5], 8: [4, 4], 9: [4, 5]},
    }.items(),
)
def test_an_epoch_is_cut_into_batches_of_four_and_the_last(last, expected):
    batching, nums = Batching(4, last), np.array([0, *expected])
    sizes = [[], *expected.values()]

    assert [batching.sizes(num) for num in nums.tolist()] == sizes
    assert batching.num_batches(nums).tolist() == list(map(len, sizes))
    assert batching.num_used(nums).tolist() == list(map(sum, sizes))
    assert batching.largest(nums).tolist() == [max(each, default=0) for each in sizes]
    assert batching.most == (7 if last == "merge" else 4)


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


seeds = st.integers(0, 2**63 - 1)
indices = st.lists(st.integers(0, 2**40), max_size=3)


@given(seeds, indices)
def test_a_stream_is_philox_with_the_hash_of_its_address_as_key(seed, path):
    address = f"{seed}/purpose/{'/'.join(map(str, path))}"
    key = int.from_bytes(hashlib.sha256(address.encode()).digest()[:16], "little")
    plain = np.random.Philox(key=key)

    assert rng.stream(seed, "purpose", *path).bit_generator.random_raw(9).tolist() == (
        plain.random_raw(9).tolist()
    )


@given(seeds, st.integers(0, 2**62), st.integers(1, 5))
def test_blocks_are_the_same_from_wherever_they_are_reached(seed, first, num):
    together = rng.words_of_many(seed, "test", [3], [first], num)
    apart = rng.words_of_many(seed, "test", [3] * num, [first + i for i in range(num)], 1)

    assert together[0].tolist() == apart[:, 0].tolist()
