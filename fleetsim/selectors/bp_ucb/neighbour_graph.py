"""Graph of neighbouring clients, along whose edges they gossip.

In the FL&DA framework clients talk to their neighbours instead of the server: they exchange beliefs
(`fleetsim.selectors.bp_ucb.belief_propagation`) and gossip about their indices, so that each can
tell whether it is among the K best. Every client sends each index that it learns to its neighbours,
once. So an index reaches a client h edges away after h steps, and all clients, as the graph is
connected.

`client_graph` makes a `networkx.Graph` of the clients' places. Its kinds are

    mutual-nearest    each of two neighbours is among the other's nearest
    nearest           one of two neighbours is among the other's nearest
    radius            neighbours are no farther apart than a radius
    complete          all clients are neighbours

Parts that are not connected are then joined by the shortest edges that do so, those of a minimum
spanning tree (Boruvka's algorithm). It takes O(N^2) time and O(N) memory besides the edges.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", sections III-B and V-A. The paper shows a graph and does not say how it was made; all
kinds are fleetsim's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.schema.ranges import Clients, LengthM
from fleetsim.settings import Settings

if TYPE_CHECKING:
    import networkx as nx

# networkx is imported where a graph is made: most runs have no graph and should not wait for it.

_BLOCK = 1 << 21
"""Distances in memory at once; changes no result."""


class MutualNearestSettings(Settings):
    """Two clients are neighbours if each is among the other's nearest."""

    kind: Literal["mutual-nearest"] = "mutual-nearest"
    num_nearest: Clients = 4
    """Nearest clients that each looks at; of equally near ones those of lower id."""


class NearestSettings(Settings):
    """Two clients are neighbours if at least one is among the other's nearest."""

    kind: Literal["nearest"] = "nearest"
    num_nearest: Clients = 4
    """Nearest clients that each looks at; of equally near ones those of lower id."""


class RadiusSettings(Settings):
    """Two clients are neighbours if they are near enough."""

    kind: Literal["radius"] = "radius"
    radius_m: LengthM
    """Largest distance between neighbours."""


class CompleteSettings(Settings):
    """All clients are neighbours: N (N - 1) / 2 edges, for some hundreds of clients."""

    kind: Literal["complete"] = "complete"


GraphSettings = Annotated[
    MutualNearestSettings | NearestSettings | RadiusSettings | CompleteSettings,
    Field(discriminator="kind"),
]
MUTUAL_NEAREST = MutualNearestSettings()


def client_graph(position_m: FloatArray, settings: GraphSettings = MUTUAL_NEAREST) -> nx.Graph[int]:
    """Return a connected graph of the clients 0 ... N - 1 at these places [N, 2], in metres.

    Nodes have the attribute `position_m`, a pair, and edges `distance_m`. To draw the clients at
    their places:

        networkx.draw(graph, networkx.get_node_attributes(graph, "position_m"))

    Client 1 is nearest to 0 and 2; 3 is far, and joined by its shortest edge:

    >>> line_m = np.array([[0.0, 0.0], [1.0, 0.0], [2.5, 0.0], [9.0, 0.0]])
    >>> sorted(client_graph(line_m, MutualNearestSettings(num_nearest=1)).edges)
    [(0, 1), (1, 2), (2, 3)]
    >>> sorted(client_graph(line_m, RadiusSettings(radius_m=2.5)).edges(data="distance_m"))
    [(0, 1, 1.0), (0, 2, 2.5), (1, 2, 1.5), (2, 3, 6.5)]
    """
    import networkx as nx  # noqa: PLC0415 - slow to import

    if position_m.ndim != 2 or position_m.shape[1] != 2 or not np.isfinite(position_m).all():
        raise ValueError(f"places must be finite pairs, got {position_m.tolist()}")
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(
        (client, {"position_m": (x, y)}) for client, (x, y) in enumerate(position_m.tolist())
    )
    _add(graph, position_m, _near_pairs(position_m, settings))
    _join(graph, position_m)
    return graph


def edges_of(graph: nx.Graph[int]) -> IntArray:
    """Return the edges, each once and lower id first, ascending [E, 2].

    >>> import networkx as nx
    >>> edges_of(nx.Graph([(2, 0), (0, 1)])).tolist()
    [[0, 1], [0, 2]]
    """
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    edges.sort(axis=1)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def distance_m(position_m: FloatArray, pairs: IntArray) -> FloatArray:
    """Return the distances [E] of pairs [E, 2] of clients at these places [N, 2], in metres.

    >>> distance_m(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0, 1]])).tolist()
    [5.0]
    """
    apart = position_m[pairs[:, 0]] - position_m[pairs[:, 1]]
    return np.hypot(apart[:, 0], apart[:, 1])


def farthest_m(position_m: FloatArray) -> float:
    """Return the largest distance between any two of these places [N, 2]; 0 for fewer than two.

    >>> farthest_m(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    5.0
    """
    largest = (away[np.isfinite(away)].max(initial=0.0) for _, away in _distances(position_m))
    return float(max(largest, default=0.0))


def _distances(position_m: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield blocks of clients [b] with the distances of all clients from them [b, N].

    The distance of a client from itself is infinite.
    """
    num = position_m.shape[0]
    num_rows = max(1, _BLOCK // max(num, 1))
    for first in range(0, num, num_rows):
        some = np.arange(first, min(first + num_rows, num), dtype=np.int64)
        apart = position_m[some, np.newaxis] - position_m
        away = np.hypot(apart[..., 0], apart[..., 1])
        away[np.arange(some.size), some] = np.inf
        yield some, away


def _near_pairs(position_m: FloatArray, settings: GraphSettings) -> IntArray:
    """Return pairs of neighbours before parts are joined, each once or twice [E, 2]."""
    near = [np.empty((0, 2), dtype=np.int64)]
    for some, away in _distances(position_m):
        if isinstance(settings, RadiusSettings):
            is_near = away <= settings.radius_m
        elif isinstance(settings, CompleteSettings):
            is_near = np.isfinite(away)
        else:
            is_near = _is_nearest(away, settings.num_nearest)
        row, column = np.nonzero(is_near)
        near.append(np.stack([some[row], column], axis=1))
    pairs = np.concatenate(near)
    if isinstance(settings, MutualNearestSettings):
        num = position_m.shape[0]
        named, namer = pairs[:, 0] * num + pairs[:, 1], pairs[:, 1] * num + pairs[:, 0]
        pairs = pairs[np.isin(named, namer)]
    return pairs


def _is_nearest(away: FloatArray, num: int) -> BoolArray:
    """Return which clients [N] are among the `num` nearest to each of some [b, N]."""
    if num >= away.shape[1]:
        return np.isfinite(away)
    last = np.partition(away, num - 1, axis=1)[:, num - 1 : num]
    is_nearer, is_level = away < last, (away == last) & np.isfinite(away)
    num_level = num - is_nearer.sum(axis=1, keepdims=True)
    nearest: BoolArray = is_nearer | (is_level & (is_level.cumsum(axis=1) <= num_level))
    return nearest


def _add(graph: nx.Graph[int], position_m: FloatArray, pairs: IntArray) -> None:
    lengths_m = distance_m(position_m, pairs).tolist()
    graph.add_edges_from(
        (i, n, {"distance_m": length_m})
        for (i, n), length_m in zip(pairs.tolist(), lengths_m, strict=True)
    )


def _parts(graph: nx.Graph[int]) -> IntArray:
    """Return the number of the connected part of each client 0 ... N - 1 [N]."""
    import networkx as nx  # noqa: PLC0415 - slow to import

    part = np.zeros(graph.number_of_nodes(), dtype=np.int64)
    for number, members in enumerate(nx.connected_components(graph)):
        part[list(members)] = number
    return part


def _join(graph: nx.Graph[int], position_m: FloatArray) -> None:
    """Add the shortest edges that connect the graph; of equally long ones those of lowest ids."""
    while (part := _parts(graph)).any():
        nearest = np.empty_like(part)
        length_m = np.empty(part.size)
        for some, away in _distances(position_m):
            away[part[some, np.newaxis] == part] = np.inf
            nearest[some] = away.argmin(axis=1)
            length_m[some] = away.min(axis=1)
        pairs = np.sort(np.stack([np.arange(part.size), nearest], axis=1), axis=1)
        # One order of all edges, so that the parts' shortest ones cannot close a ring.
        order = np.lexsort((pairs[:, 1], pairs[:, 0], length_m, part))
        _, first = np.unique(part[order], return_index=True)
        _add(graph, position_m, np.unique(pairs[order[first]], axis=0))
