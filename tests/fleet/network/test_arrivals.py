"""Forced success probabilities; intervals as in `tests/theory/intervals.py`."""

import numpy as np
import pytest

from fleetsim.fleet.network.arrivals import Arrivals, SuccessSettings, build_arrivals
from tests.theory.intervals import assert_share, assert_uncorrelated

SIZE = 42_000
CLIENTS = np.arange(SIZE)
THETAS = (1.0, 0.75, 0.5)
SHARES = (0.5, 0.3, 0.2)


def arrivals_of(*pairs: tuple[float, float], size: int = SIZE, seed: int = 3) -> Arrivals:
    successes = [SuccessSettings(probability=theta, share=share) for theta, share in pairs]
    arrivals = build_arrivals(successes, seed=seed, size=size)
    assert arrivals is not None
    return arrivals


def mixed(size: int = SIZE) -> Arrivals:
    return arrivals_of(*zip(THETAS, SHARES, strict=True), size=size)


def arrive(arrivals: Arrivals, *address: int) -> np.ndarray:
    return arrivals.of(CLIENTS, [address] * SIZE)


def test_each_share_of_the_clients_has_its_probability_and_uploads_arrive_as_often():
    arrivals = mixed()
    arrived = arrive(arrivals, 0, 7)

    for theta, share in zip(THETAS, SHARES, strict=True):
        assert_share(arrivals.probability == theta, share, within=0.05)
    assert arrived[arrivals.probability == 1.0].all()
    for theta in THETAS[1:]:
        assert_share(arrived[arrivals.probability == theta], theta, within=0.05)


@pytest.mark.slow
def test_uploads_of_one_client_are_independent():
    arrivals = arrivals_of((0.5, 1.0))
    first, second = (2.0 * arrive(arrivals, 0, number) for number in (1, 2))

    assert_uncorrelated(first, second)


def test_what_becomes_of_an_upload_depends_on_its_address_alone():
    arrivals = mixed()
    addresses = [(0, index % 5) for index in range(500)]
    together = arrivals.of(CLIENTS[:500], addresses)

    for client in (0, 17, 499):
        alone = arrivals.of(np.array([client]), [addresses[client]])
        assert alone.tolist() == [together[client]]


def test_a_client_has_the_same_probability_in_a_larger_fleet():
    assert mixed(1000).probability[:9].tolist() == mixed(9).probability.tolist()


def test_nothing_is_drawn_where_every_upload_succeeds():
    sure = [SuccessSettings(probability=1.0, share=share) for share in (0.4, 0.6)]

    assert build_arrivals(sure, seed=1, size=5) is None
    assert arrivals_of((1.0, 0.9), (0.5, 0.1)) is not None
