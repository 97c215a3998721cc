import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.selectors.bp_ucb import neighbour_graph as module
from fleetsim.selectors.bp_ucb.belief_propagation import (
    Propagation,
    compatibilities,
    convergence_bound,
    distance_factors,
    local_potentials,
    propagated,
)
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

NO_EDGES = np.empty((0, 2), dtype=np.int64)


def exact(local: np.ndarray, edges: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Marginals [N, 2] of the product of all potentials, by enumeration of all states."""
    marginals = np.zeros(local.shape)
    for states in itertools.product((0, 1), repeat=local.shape[0]):
        weight = math.prod(local[n, s] for n, s in enumerate(states))
        for (i, n), pair in zip(edges.tolist(), pairs, strict=True):
            weight *= pair[states[i], states[n]]
        for n, s in enumerate(states):
            marginals[n, s] += weight
    shares: np.ndarray = marginals / marginals.sum(axis=1, keepdims=True)
    return shares


def ring(num: int) -> np.ndarray:
    return np.array([[n, (n + 1) % num] for n in range(num)])


def of_opinions(opinions: list[float], edges: np.ndarray, factor: float, kind) -> Propagation:
    return propagated(
        local_potentials(np.array(opinions), kind),
        edges,
        compatibilities(np.full(len(edges), factor), kind),
    )


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_beliefs_are_exact_on_trees(seed, num):
    # Random trees (each client hangs on an earlier one), random potentials of no symmetry, edges
    # in either direction.
    stream = rng.stream(seed, "tree")
    hangs_on = [[int(stream.integers(0, n)), n] for n in range(1, num)]
    edges = np.array(hangs_on, dtype=np.int64).reshape(-1, 2)
    turn = stream.random(num - 1) < 0.5
    edges[turn] = edges[turn][:, ::-1]
    local = stream.uniform(0.05, 1.0, (num, 2))
    pairs = stream.uniform(0.05, 1.0, (num - 1, 2, 2))
    result = propagated(local, edges, pairs)
    damped = propagated(local, edges, pairs, damping=0.5)

    assert result.beliefs == pytest.approx(exact(local, edges, pairs), abs=1e-9)
    # Word from the far end is there after as many exchanges as the tree is long; one more tells
    # that nothing changes.
    assert result.is_converged
    assert result.num_exchanges <= max(num, 1)
    assert damped.beliefs == pytest.approx(result.beliefs, abs=1e-7)


@given(
    st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5), st.floats(0.0, 1.0), st.integers(0, 99)
)
def test_as_printed_every_belief_is_one_half(opinions, factor, seed):
    graph = nx.gnp_random_graph(5, 0.6, seed=seed)
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    result = of_opinions(opinions, edges, factor, "printed")

    assert result.beliefs == pytest.approx(np.full((5, 2), 0.5), abs=1e-9)


def test_far_neighbours_of_pue_push_away():
    # e = .2: psi = .2 if equal, .8 if not. phi = (.75, .25) beside (.19, .81): the message is
    # .19*.2 + .81*.8 = .686 for 0 and .19*.8 + .81*.2 = .314 for 1.
    result = of_opinions([0.5, 0.9], np.array([[0, 1]]), 0.2, "pue")

    assert result.beliefs[0, 1] == pytest.approx(0.25 * 0.314 / (0.75 * 0.686 + 0.25 * 0.314))


@pytest.mark.parametrize("kind", ["agreement", "pue", "printed"])
def test_certainties_that_contradict_each_other_still_have_a_belief(kind):
    for factor in (0.0, 1.0):
        result = of_opinions([1.0, 0.0, 1.0], ring(3), factor, kind)

        assert np.all(np.isfinite(result.beliefs))
        assert result.beliefs.sum(axis=1) == pytest.approx(np.ones(3))


def test_a_client_alone_believes_what_it_sees():
    result = of_opinions([0.6, 1.0], NO_EDGES, 0.5, "agreement")

    assert result.beliefs[:, 1] == pytest.approx([0.36, 1.0])
    assert result.num_exchanges == 0
    assert result.is_converged
    assert of_opinions([], NO_EDGES, 0.5, "agreement").beliefs.shape == (0, 2)


def test_damping_keeps_a_share_of_the_old_message():
    # .75*.465 against .25*.535.
    local, pairs = local_potentials(np.array([0.8, 0.5])), compatibilities(np.array([0.5]))
    result = propagated(local, np.array([[0, 1]]), pairs, max_exchanges=1, damping=0.5)

    assert result.beliefs[1, 1] == pytest.approx(0.13375 / 0.4825)


def test_distance_factors_by_hand():
    # C = 1e-3, beta = 3.7, unit 100 m: at 200 m .001 * 2^3.7 = .0129960, e = .987088; at 1 km
    # .001 * 10^3.7 = 5.011872, e = .006658; in kilometres 1 km gives exp(-.001).
    factors = distance_factors(np.array([0.0, 200.0, 1000.0]))

    assert factors == pytest.approx([1.0, 0.987088, 0.006658], abs=1e-6)
    assert distance_factors(np.array([1000.0]), unit_m=1000.0)[0] == pytest.approx(0.9990005)


def test_theorem_2_fails_in_the_papers_own_set_up_without_c():
    # d_max = sqrt(2) km, d^3.7 = 3.605, tanh = .998523: 19 times that is 18.97.
    literal = convergence_bound(20, 1000 * math.sqrt(2), decay=1.0, unit_m=1000.0)

    assert literal == pytest.approx(18.97, abs=0.005)


def bound(edges, factors, num_clients):
    """Mooij and Kappen's bound (UAI 2005): the largest sum of e over all neighbours but one."""
    around = [
        [e for edge, e in zip(edges, factors, strict=True) if n in edge] for n in range(num_clients)
    ]
    return max((sum(of) - min(of) for of in around if of), default=0.0)


@settings(max_examples=30)
@given(st.integers(0, 1000))
def test_below_the_bound_the_messages_settle(seed):
    stream = rng.stream(seed, "graph")
    graph = nx.gnp_random_graph(8, 0.5, seed=seed)
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    factors = stream.uniform(0.0, 1.0, len(edges))
    factors *= min(1.0, 0.8 / max(bound(edges, factors, 8), 1e-9))
    result = propagated(local_potentials(stream.random(8)), edges, compatibilities(factors))

    assert bound(edges, factors, 8) <= 0.8 + 1e-9
    # 0.8^110 is below 1e-9 times the greatest first change of a message.
    assert result.is_converged


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
    assert (farthest_m(places_m), farthest_m(np.zeros((1, 2)))) == (5.0, 0.0)
    assert farthest_m(np.zeros((0, 2))) == 0.0


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="finite pairs"):
        client_graph(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="finite pairs"):
        client_graph(np.array([[0.0, np.nan]]))
