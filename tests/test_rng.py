import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng

seeds = st.integers(0, 2**63 - 1)
indices = st.lists(st.integers(0, 2**40), max_size=3)


@given(seeds, indices)
def test_a_stream_is_philox_with_the_hash_of_its_address_as_key(seed: int, path: list[int]) -> None:
    address = f"{seed}/purpose/{'/'.join(map(str, path))}"
    key = int.from_bytes(hashlib.sha256(address.encode()).digest()[:16], "little")
    plain = np.random.Philox(key=key)

    assert rng.stream(seed, "purpose", *path).bit_generator.random_raw(9).tolist() == (
        plain.random_raw(9).tolist()
    )


def test_streams_of_one_address_do_not_share_a_place() -> None:
    one, other = rng.stream(1, "test", 2), rng.stream(1, "test", 2)
    one.random(5)

    assert one.random() != other.random()
    assert rng.stream(1, "test", 2).random() == rng.stream(1, "test", 2).random()


@given(seeds, st.integers(0, 2**62), st.integers(1, 5))
def test_blocks_are_the_same_from_wherever_they_are_reached(
    seed: int, first: int, num: int
) -> None:
    together = rng.words_of_many(seed, "test", [3], [first], num)
    apart = rng.words_of_many(seed, "test", [3] * num, [first + i for i in range(num)], 1)

    assert together[0].tolist() == apart[:, 0].tolist()
