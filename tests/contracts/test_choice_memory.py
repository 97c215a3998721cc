"""Memory of a selection: proportional to the fleet, except for selectors that declare more."""

import tracemalloc

import numpy as np
import pytest

from benchmarks.selector_prices import selector_of
from fleetsim.contracts import Evaluation, FleetView, RoundView
from fleetsim.selectors import DEMANDS

COHORT = 10
LINEAR = [
    pytest.param(kind, variant, id=f"{kind}-{variant}")
    for kind, variants in DEMANDS.items()
    for variant, demand in variants.items()
    if not (demand.square_byte or demand.client_byte or demand.has_sets)
]
PER_CLIENT_BYTE = 1_000
"""Bytes per client: tens of columns of 8 byte. Pairs of 5,000 clients would take 40,000 byte."""


def peak_byte(kind, variant, size):
    """Return the largest memory from the selector's set-up to its second selection."""
    num_samples = np.arange(size) % 100 + 1
    parameters = np.zeros(4, dtype=np.float32)
    position_m = np.stack([np.arange(size), np.arange(size) % 7], axis=1).astype(np.float64)
    fleet = FleetView(
        seed=1,
        num_samples=num_samples,
        cohort=COHORT,
        epochs=1,
        batch_size=10,
        learning_rate=0.1,
        planned_rounds=30,
        parameters=parameters,
        payload_byte=16,
        validation=Evaluation(accuracy=0.1, loss=2.3),
        position_m=position_m,
    )
    clients = np.arange(size)
    tracemalloc.start()
    try:
        selector = selector_of(kind, variant, size=size, cohort=COHORT)
        selector.setup(fleet)
        for round_ in (1, 2):
            # Nobody has answered whatever was asked.
            selector.select(RoundView(round_, 0.0, COHORT, clients, num_samples, parameters))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "variant"), LINEAR)
def test_a_choice_among_thousands_takes_memory_in_proportion(kind, variant):
    assert peak_byte(kind, variant, 5_000) < PER_CLIENT_BYTE * 5_000


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "variant"), LINEAR)
def test_a_choice_among_a_million_takes_memory_in_proportion(kind, variant):
    assert peak_byte(kind, variant, 1_000_000) < PER_CLIENT_BYTE * 1_000_000


def test_a_selector_that_holds_pairs_takes_what_it_says():
    size = 1_000
    demand = DEMANDS["divfl"]["refresh: ideal"]

    assert peak_byte("divfl", "refresh: ideal", size) > 0.9 * demand.square_byte * size**2
