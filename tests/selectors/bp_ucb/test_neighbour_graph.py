import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.bp_ucb import neighbour_graph as module
from fleetsim.selectors.bp_ucb.neighbour_graph import (
    CompleteSettings,
    GraphSettings,
    MutualNearestSettings,
    NearestSettings,
    RadiusSettings,
    client_graph,
    distance_m,
    edges_of,
    farthest_m,
)

KINDS: list[GraphSettings] = [
    *(MutualNearestSettings(num_nearest=num) for num in (1, 2, 4)),
    *(NearestSettings(num_nearest=num) for num in (1, 3)),
    *(RadiusSettings(radius_m=radius_m) for radius_m in (1.0, 2.0, 300.0)),
    CompleteSettings(),
]


def slow_edges(position_m: np.ndarray, kind) -> list[tuple[int, int]]:
    """The same graph pair by pair, and joined one shortest edge after the other."""
    num = len(position_m)
    pairs = list(itertools.combinations(range(num), 2))
    apart = {(i, n): float(np.hypot(*(position_m[i] - position_m[n]))) for i, n in pairs}
    apart |= {(n, i): length_m for (i, n), length_m in apart.items()}

    def nearest(i: int) -> list[int]:
        others = [n for n in range(num) if n != i]
        return sorted(others, key=lambda n: (apart[i, n], n))[: kind.num_nearest]

    match kind:
        case CompleteSettings():
            found = set(pairs)
        case RadiusSettings():
            found = {pair for pair in pairs if apart[pair] <= kind.radius_m}
        case MutualNearestSettings():
            found = {(i, n) for i, n in pairs if n in nearest(i) and i in nearest(n)}
        case _:
            found = {(i, n) for i, n in pairs if n in nearest(i) or i in nearest(n)}
    part = list(range(num))

    def merge(i: int, n: int) -> None:
        old, new = part[n], part[i]
        part[:] = [new if number == old else number for number in part]

    for i, n in found:
        merge(i, n)
    for i, n in sorted(pairs, key=lambda pair: (apart[pair], pair)):
        if part[i] != part[n]:
            found.add((i, n))
            merge(i, n)
    return sorted(found)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 25), st.booleans())
def test_the_graph_is_that_of_brute_force(kind, seed, num, has_ties):
    stream = rng.stream(seed, "places")
    # Whole metres of a small field: many are equally far apart, and some at one place.
    places = stream.integers(0, 6, (num, 2)) if has_ties else stream.uniform(0, 1000, (num, 2))
    position_m = places.astype(np.float64)
    graph = client_graph(position_m, kind)

    assert edges_of(graph).tolist() == [list(edge) for edge in slow_edges(position_m, kind)]
    assert list(graph.nodes) == list(range(num))
    assert num == 0 or nx.is_connected(graph)
    for i, n, edge in graph.edges(data=True):
        assert edge["distance_m"] == pytest.approx(np.hypot(*(position_m[i] - position_m[n])))


def test_blocks_of_rows_change_nothing(monkeypatch):
    position_m = rng.stream(3, "places").integers(0, 9, (40, 2)).astype(np.float64)
    whole = [edges_of(client_graph(position_m, kind)).tolist() for kind in KINDS]
    farthest = farthest_m(position_m)
    monkeypatch.setattr(module, "_BLOCK", 130)

    assert [edges_of(client_graph(position_m, kind)).tolist() for kind in KINDS] == whole
    assert farthest_m(position_m) == farthest


def test_distances_by_hand():
    places_m = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])

    assert distance_m(places_m, np.array([[0, 1], [2, 0]])).tolist() == [5.0, 1.0]
    assert farthest_m(places_m) == 5.0
    assert farthest_m(np.zeros((1, 2))) == 0.0
    assert farthest_m(np.zeros((0, 2))) == 0.0


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="finite pairs"):
        client_graph(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="finite pairs"):
        client_graph(np.array([[0.0, np.nan]]))
