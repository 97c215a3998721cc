"""How links are divided: max-min fair, against exact fractions and the definition."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.fleet.direction import Direction
from fleetsim.fleet.sharing import SharedLinksSettings, build_shared_links, fair_rates
from tests.fleet.fair import filled

rates = st.integers(0, 40).map(float)
flows = st.lists(st.tuples(rates, st.integers(0, 2)), min_size=1, max_size=12)
capacities = st.lists(st.integers(1, 60).map(float) | st.just(np.inf), min_size=3, max_size=3)
server = st.integers(1, 100).map(float) | st.just(np.inf)


def exact(value: float) -> Fraction:
    return Fraction(10**9) if value == np.inf else Fraction(value)


@given(flows, capacities, server)
def test_the_division_is_that_of_progressive_filling(flows, capacities, server):
    own, cell = np.array([o for o, _ in flows]), np.array([c for _, c in flows])
    links = [
        (exact(capacity), frozenset((cell == c).nonzero()[0].tolist()))
        for c, capacity in enumerate(capacities)
    ]
    links.append((exact(server), frozenset(range(len(flows)))))

    assert fair_rates(own, cell, np.array(capacities), server) == pytest.approx(
        [float(rate) for rate in filled([exact(o) for o in own.tolist()], links)], rel=1e-12
    )


@given(
    st.lists(st.tuples(st.floats(0.0, 1e9), st.integers(0, 4)), min_size=1, max_size=60),
    st.lists(st.floats(1.0, 1e10), min_size=5, max_size=5),
    st.floats(1.0, 1e10),
)
def test_nobody_can_gain_without_a_poorer_one_losing(flows, capacities, server):
    """Everybody has all it can use, or is among the richest on a link that is full."""
    own, cell = np.array([o for o, _ in flows]), np.array([c for _, c in flows])
    rate = fair_rates(own, cell, np.array(capacities), server)
    load = np.bincount(cell, rate, minlength=5)
    richest = np.array([rate[cell == c].max(initial=0.0) for c in range(5)])

    assert (rate <= own).all()
    assert (load <= np.array(capacities) * (1 + 1e-12)).all()
    assert rate.sum() <= server * (1 + 1e-12)
    is_held = rate >= own
    is_held |= (load >= np.array(capacities) * (1 - 1e-12))[cell] & (rate >= richest[cell])
    is_held |= (rate.sum() >= server * (1 - 1e-12)) & (rate >= rate.max())
    assert is_held.all()


def test_a_client_stands_in_the_same_cell_whatever_the_size_of_the_fleet():
    settings = SharedLinksSettings(cells=3, cell_up_bit_per_s=1e6)
    small, large = (
        build_shared_links(settings, seed=4, wired_bit_per_s=np.full(size, np.nan))
        for size in (100, 3000)
    )
    counts = np.bincount(large.cell)

    assert small.cell.tolist() == large.cell[:100].tolist()
    assert counts.size == 3
    assert counts.min() > 1000 - 5 * np.sqrt(3000 * 2 / 9)  # five standard deviations


def test_a_cable_bypasses_the_cells_and_not_the_server():
    settings = SharedLinksSettings(cell_up_bit_per_s=10.0, server_in_bit_per_s=28.0)
    links = build_shared_links(settings, seed=1, wired_bit_per_s=np.array([np.nan, np.nan, 90.0]))
    cells = links.cells_of(np.arange(3), np.zeros(3, dtype=bool))
    own = np.array([50.0, 50.0, 90.0])

    assert links.fair_bit_per_s(cells, Direction.UP, own).tolist() == [5.0, 5.0, 18.0]
    assert links.fair_bit_per_s(cells, Direction.DOWN, own).tolist() == own.tolist()


def test_wifi_bypasses_the_cells_and_not_the_server():
    settings = SharedLinksSettings(cell_up_bit_per_s=10.0, server_in_bit_per_s=28.0)
    links = build_shared_links(settings, seed=1, wired_bit_per_s=np.full(3, np.nan))
    cells = links.cells_of(np.arange(3), np.array([False, False, True]))

    assert links.fair_bit_per_s(cells, Direction.UP, np.array([50.0, 50.0, 90.0])).tolist() == [
        *(5.0, 5.0, 18.0)
    ]


@pytest.mark.parametrize("settings", [{}, {"cells": 4}, {"cells": 4, "server_in_bit_per_s": 1e6}])
def test_links_that_limit_nobody_are_refused(settings):
    with pytest.raises(ValidationError, match="give"):
        SharedLinksSettings(**settings)
