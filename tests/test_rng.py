import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng

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
