"""BP-UCB: a bandit over clients, which find by belief propagation whether they should train.

Arms are clients, and there is no server. After slot t each client evaluates the new model on its
own samples; the accuracy is its *opinion*. Neighbours agree on beliefs (`belief_propagation`), and
client n has the index

    Psi_n = r_n + b_n(1) / N + mu sqrt(ln t / Pi_n)      (17)

with r_n the mean of its *own* opinions over the slots in which it was selected (18), b_n(1) its
belief that it should be, and Pi_n the number of these slots. The K largest train. In slot 1 K
random clients do, which the paper leaves open.

* The opinion that each client has of the model of slot 1 is its first mean, with one play. A client
  that appears later begins likewise.
* All messages of a client in a slot are one probe, so clients with most messages take longest.
* A slot counts for a selected client if it delivered at least once, to a model that was aggregated,
  and has an opinion of the result.

Source: Tong et al., "From learning to analytics", sections III-B and V, Algorithm 2 (mu 0.01, C -30
dB, beta 3.7, L 15, a square of 1 km).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    RoundView,
    Work,
    WorkKind,
)
from fleetsim.schema.key_conditions import NO_DISTANCES, beside, by_key
from fleetsim.schema.ranges import Gain, LengthM, Rounds, Steps, Weight
from fleetsim.selectors import probing
from fleetsim.selectors.bandits.equations import client_index, rewarded
from fleetsim.selectors.bandits.slots import SlotModel, SlotSelector
from fleetsim.selectors.baselines.uniform import random_clients
from fleetsim.selectors.bp_ucb import belief_propagation, neighbour_graph
from fleetsim.selectors.bp_ucb.belief_propagation import Potentials
from fleetsim.selectors.bp_ucb.neighbour_graph import MUTUAL_NEAREST, GraphSettings
from fleetsim.selectors.configured_selector import SelectorKind
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys

if TYPE_CHECKING:
    import networkx as nx


SCALAR_BYTE = 8
"""One number of 64 bit, with framing."""
_NO_BELIEF = 0.5

_BELIEFS = beside("potentials", "agreement", "pue")
"""Printed potentials do not depend on the state: all beliefs are one half, whatever is set."""


class BpUcbSettings(SelectorKind):
    """Bandit over clients, which evaluate the model themselves and agree among neighbours."""

    acts_if = by_key(
        side_m=(_BELIEFS, NO_DISTANCES),
        **dict.fromkeys(("distance_decay", "distance_exponent", "distance_unit_m"), _BELIEFS),
        **dict.fromkeys(("damping", "tolerance", "max_exchanges"), _BELIEFS),
    )

    demands: ClassVar[Demands] = {
        "": Demand(
            "nothing; clients know their own accuracy and their neighbours' messages",
            "small",
            "clients need links to their neighbours, who learn their beliefs;"
            " the simulation holds distances between all",
            square_byte=42,
        )
    }

    selector = "BpUcbSelector"
    kind: Literal["bp-ucb"] = "bp-ucb"
    mu: Weight = 0.01
    """Weight of the exploration."""
    slot_rounds: Rounds = Field(default=15, examples=[1])
    """Rounds for which the chosen clients train before they are evaluated (L)."""
    potentials: Potentials = "agreement"
    """Rule by which opinions and distances become beliefs."""
    distance_decay: Gain = 1e-3
    """C of exp(-C d^beta), the similarity of two clients; the paper's -30 dB."""
    distance_exponent: Annotated[float, Field(ge=1e-3, le=100.0)] = 3.7
    """beta."""
    distance_unit_m: LengthM = 100.0
    """Unit of d in metres."""
    graph: GraphSettings = Field(
        default=MUTUAL_NEAREST,
        examples=[
            {"kind": "mutual-nearest", "num_nearest": 1},
            {"kind": "nearest", "num_nearest": 2},
            {"kind": "radius", "radius_m": 250.0},
            {"kind": "complete"},
        ],
    )
    """Rule by which clients are neighbours."""
    side_m: LengthM = 1000.0
    """Side of the square of the clients' places, in a world without distances."""
    damping: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of the old message that is kept in each exchange; 0.5 helps where loops oscillate."""
    tolerance: Annotated[float, Field(ge=1e-300, le=1.0)] = 1e-9
    """Largest change of a message that counts as none."""
    max_exchanges: Steps = 200
    """Limit of exchanges, after which the present beliefs are used."""
    ties: TieRule = "random"
    """Order among equal indices."""
    model: SlotModel = "persist"
    """First model of a slot: that of the slot before, or the initial one."""

    def warning(self, position_m: FloatArray | None, *, num_clients: int, seed: int) -> str | None:
        """Return a warning if theorem 2 does not cover clients at these places; None if it does.

        Registered places are in metres [N, 2]; None in a world without distances.
        """
        if self.potentials == "printed":
            return None  # printed potentials never change the messages
        if position_m is None:
            position_m = drawn_places_m(seed, num_clients, self.side_m)
        bound = belief_propagation.convergence_bound(
            num_clients,
            neighbour_graph.farthest_m(position_m),
            decay=self.distance_decay,
            exponent=self.distance_exponent,
            unit_m=self.distance_unit_m,
        )
        if bound < 1.0:
            return None
        return (
            f"(N - 1) tanh(C d_max^beta) = {bound:.3g} is not below 1, so the paper's theorem 2"
            " does not promise that beliefs converge; they are taken as they are after"
            f" max_exchanges = {self.max_exchanges}, and damping: 0.5 helps where loops oscillate"
        )


def drawn_places_m(seed: int, num_clients: int, side_m: float) -> FloatArray:
    """Return random places of clients in a square [N, 2], in metres."""
    return rng.stream(seed, "select/bp-ucb/places").uniform(0.0, side_m, (num_clients, 2))


class BpUcbSelector(SlotSelector[BpUcbSettings]):
    """Selector whose arms are clients, with the beliefs of the present choice."""

    def _begin(self, fleet: FleetView) -> None:
        position_m = fleet.position_m
        if position_m is None:
            position_m = drawn_places_m(fleet.seed, self._size, self._settings.side_m)
        self._position_m = position_m
        self._begin_slots(fleet, self._size, self._settings.model)
        # Graph of the clients that exchanged messages last:
        self._connected: IntArray = np.empty(0, dtype=np.int64)
        self._edges: IntArray = np.empty((0, 2), dtype=np.int64)
        # Of one choice:
        self._exchanged_in = 0
        self._num_before = 0
        self._belief = np.full(self._size, _NO_BELIEF)
        self._has_exchanged = np.zeros(self._size, dtype=np.bool_)

    def graph(self) -> nx.Graph[int]:
        """Return the graph of all clients, to draw or to analyse, after `setup`."""
        return neighbour_graph.client_graph(self._position_m, self._settings.graph)

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """After a slot: ask for opinions first, then charge the messages between neighbours."""
        if self._num_slots == 0 or not self._is_over:
            return ()
        silent = probing.unasked(view)
        if silent.size:
            return probing.evaluations(silent, upload_byte=0, is_opinion=True)
        if self._exchanged_in == view.round:
            return ()
        self._exchanged_in = view.round
        self._num_before = len(view.reports)
        return self._exchange(view)

    def _begin_slot(self, view: RoundView) -> None:
        clients = self._next_clients(view)
        self._num_slots += 1
        self._play(clients, self._settings.slot_rounds)

    def _exchange(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Compute the beliefs of clients with an opinion; return their messages as probes."""
        opinions = probing.accuracies(view.reports, self._size)
        clients = view.candidates[~np.isnan(opinions[view.candidates])]
        if not np.array_equal(clients, self._connected):
            self._connected = clients
            graph = neighbour_graph.client_graph(self._position_m[clients], self._settings.graph)
            self._edges = neighbour_graph.edges_of(graph)
        edges, settings = self._edges, self._settings
        apart_m = neighbour_graph.distance_m(self._position_m[clients], edges)
        factors = belief_propagation.distance_factors(
            apart_m,
            decay=settings.distance_decay,
            exponent=settings.distance_exponent,
            unit_m=settings.distance_unit_m,
        )
        result = belief_propagation.propagated(
            belief_propagation.local_potentials(opinions[clients], settings.potentials),
            edges,
            belief_propagation.compatibilities(factors, settings.potentials),
            tolerance=settings.tolerance,
            max_exchanges=settings.max_exchanges,
            damping=settings.damping,
        )
        self._belief = np.full(self._size, _NO_BELIEF)
        self._belief[clients] = result.beliefs[:, 1]
        self._has_exchanged = self._mask(clients)
        num_neighbours = np.bincount(edges.ravel(), minlength=clients.size)
        # Each receives as many bytes as it sends, and passes on the indices of all clients.
        message_byte = SCALAR_BYTE * num_neighbours * (2 * result.num_exchanges + clients.size)
        return [
            ProbeRequest(
                client,
                Work(WorkKind.NONE),
                needs_model=False,
                download_byte=num_byte,
                upload_byte=num_byte,
                belief=belief,
            )
            for client, num_byte, belief in zip(
                clients.tolist(), message_byte.tolist(), result.beliefs[:, 1].tolist(), strict=True
            )
        ]

    def _next_clients(self, view: RoundView) -> IntArray:
        """Return random clients for the first slot, and later the best by index."""
        settings, size, present = self._settings, self._size, view.candidates
        generator = rng.stream(self._fleet.seed, "select/bp-ucb", view.round)
        if self._num_slots == 0:
            return random_clients(present, view.wanted, generator.standard_exponential(size))
        self._learn(probing.accuracies(view.reports, size))
        scores = client_index(
            self._means, self._plays, self._belief, self._num_slots + 1, settings.mu
        )
        keys = tie_keys(settings.ties, size, generator)
        replies = view.reports[self._num_before :]
        delivered = [report.client for report in replies if report.is_delivered]
        has_answered = self._has_exchanged & self._mask(np.array(delivered, dtype=np.int64))
        answered, others = present[has_answered[present]], present[~has_answered[present]]
        first = answered[best(scores[answered], view.wanted, keys[answered])]
        last = others[best(scores[others], view.wanted - first.size, keys[others])]
        return np.concatenate([first, last])

    def _learn(self, opinions: FloatArray) -> None:
        """Add the opinions of clients that trained, and the first opinion of each client."""
        has_trained = self._slot_delivered | (self._plays == 0)
        counted = np.flatnonzero(has_trained & ~np.isnan(opinions))
        self._means, self._plays = rewarded(self._means, self._plays, counted, opinions[counted])
