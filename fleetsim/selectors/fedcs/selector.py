"""FedCS: as many clients as fit into a round, by the resources that they report.

Two rules are fleetsim's, so that a run continues: if no client fits, the one with the shortest
round is chosen; if no client answered, random candidates are. T_round is the selector's plan; the
server closes a round at `server.deadline_s`.

Source: Nishio, Yonetani, ICC 2019 (arXiv 1804.08333), Protocol 1 and Algorithm 3; T_round = 180 s
and C = 0.1 are from memory of its experiments with 1000 clients.
"""

from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import FleetView, IntArray, RoundView
from fleetsim.fleet.devices.compute import num_trained
from fleetsim.schema.ranges import Clients, DelayS, DurationS, PositiveFraction
from fleetsim.selectors import probing
from fleetsim.selectors.baselines.uniform import random_clients
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.fedcs.equations import num_asked, pack
from fleetsim.selectors.tie_breaking import TieRule, tie_keys
from fleetsim.units import BIT_PER_BYTE

_ANSWER_BYTE = 24
"""Speed and the two rates of the link."""


class FedCSSettings(SelectorKind):
    """As many clients as fit into a round, by the resources that they report."""

    demands: ClassVar[Demands] = {
        "": Demand(
            "n_k; speed and link of a tenth of the fleet, as they say; size of the model",
            "yes",
            "answers are of the device; a client that overstates its speed is chosen more often",
        )
    }

    selector = "FedCSSelector"
    kind: Literal["fedcs"] = "fedcs"
    round_s: DurationS = 180.0
    """Deadline T_round that the cohort is packed for."""
    asked_fraction: PositiveFraction = 0.1
    """Share of the whole fleet that is asked for its resources (C); at most the candidates."""
    max_clients: Clients | None = Field(default=None, examples=[2])
    """Largest number of chosen clients; null: as many as the server wants."""
    selection_s: DelayS = 0.0
    """Part of T_round before the model is sent (T_cs)."""
    aggregation_s: DelayS = 0.0
    """Part of T_round after the last upload (T_agg)."""
    ties: TieRule = "random"
    """Order among clients that prolong the round equally."""


class FedCSSelector(ConfiguredSelector[FedCSSettings]):
    """Selector that asks anew in every round, without a state."""

    needs_probes = True

    def _begin(self, fleet: FleetView) -> None:
        self._num_trained = num_trained(fleet.training, fleet.num_samples, fleet.batching)
        self._payload_bit = fleet.payload_byte * BIT_PER_BYTE

    def _stages(self, view: RoundView) -> Stages:
        """Ask random candidates for their resources, once for each choice."""
        num = num_asked(self._size, self._settings.asked_fraction)
        yield probing.resource_requests(self._drawn(view, num), _ANSWER_BYTE)

    def select(self, view: RoundView) -> IntArray:
        """Return the clients that fit into the round, in the order of the packing."""
        clients, told = probing.resources(view.reports)
        rates = np.stack([told["down_bit_per_s"], told["up_bit_per_s"], told["samples_per_s"]])
        # With a link and some processor at this moment.
        is_able = (rates > 0.0).all(axis=0) & np.isin(clients, view.candidates)
        able = np.flatnonzero(is_able)[np.argsort(clients[is_able])]
        present = clients[able]
        limit = self._settings.max_clients
        max_clients = view.wanted if limit is None else min(limit, view.wanted)
        if present.size == 0:
            return self._drawn(view, max_clients)
        generator = rng.stream(self._fleet.seed, "select/fedcs/ties", view.round)
        down_bit_per_s, up_bit_per_s, samples_per_s = rates[:, able]
        fitting = partial(
            pack,
            self._payload_bit / down_bit_per_s,
            self._num_trained[present] / samples_per_s,
            self._payload_bit / up_bit_per_s,
            keys=tie_keys(self._settings.ties, self._size, generator)[present],
            selection_s=self._settings.selection_s,
            aggregation_s=self._settings.aggregation_s,
        )
        packed = fitting(deadline_s=self._settings.round_s, max_clients=max_clients)
        if packed.size == 0:
            packed = fitting(deadline_s=np.inf, max_clients=1)
        return present[packed]

    def _drawn(self, view: RoundView, num: int) -> IntArray:
        """Return random candidates, in the order drawn."""
        generator = rng.stream(self._fleet.seed, "select/fedcs", view.round)
        exponentials = generator.standard_exponential(self._size)
        return random_clients(view.candidates, num, exponentials)
