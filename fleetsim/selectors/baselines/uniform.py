"""Random selection: K of the available clients, uniformly or in proportion to their data.

Clients are drawn without replacement ("sequential renormalisation"); the next one is client i with
the probability

    w_i / (sum of w_j over the clients not yet drawn),      w_i = 1 (uniform) or n_i (size)

With equal weights every K-subset is equally likely. The draw is an exponential race: client i
arrives at E_i / w_i with independent E_i ~ Exp(1), and the first K arrivals are taken in their
order. The logarithms of the arrivals are Gumbel variables, so this is also the Gumbel top-k draw.
The E_i are drawn for the whole fleet, available or not.

Sources: McMahan et al., AISTATS 2017 (uniform K of N); `rand` of Cho et al., AISTATS 2022 (in
proportion to n_k); Efraimidis and Spirakis, "Weighted random sampling with a reservoir",
Information Processing Letters 97, 2006 (the race); Tong et al., "From learning to analytics:
improving model efficacy with goal-directed client selection" (slots of L rounds, section VI; sets,
as its random baseline is once said to choose clients and once one of predefined sets).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import FleetView, FloatArray, IntArray, RoundView
from fleetsim.selectors.bandits.slots import SlotRounds, slot_of
from fleetsim.selectors.baselines.fixed import ClientIds, sets_of_clients
from fleetsim.selectors.baselines.round_robin import sets_in_line, take_turn
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind
from fleetsim.selectors.demands import DECLARED_SAMPLES, Demand, Demands
from fleetsim.selectors.tie_breaking import best


class RandomSettings(SelectorKind):
    """Random clients: uniformly, or in proportion to their number of samples."""

    demands: ClassVar[Demands] = {
        "weights: uniform": Demand("nothing", "yes", "nothing is asked, nothing is kept"),
        "weights: size": Demand("n_k", "yes", DECLARED_SAMPLES),
    }

    kind: Literal["random"] = "random"
    weights: Literal["uniform", "size"] = "uniform"
    """Chance of a client at each draw: the same for all, or proportional to its samples."""

    from_sets: Annotated[tuple[ClientIds, ...], Field(min_length=1)] | None = Field(
        default=None, examples=[((0, 1), (2,))]
    )
    """Sets of clients, such as `[[1, 2, 11], [3, 4]]`, one of which is drawn at each choice; null:
    clients are drawn."""
    slot_rounds: SlotRounds = 1
    """Rounds that a draw holds for; the next client in the draw replaces a missing one."""

    @model_validator(mode="after")
    def _sets_are_equally_likely(self) -> Self:
        if self.from_sets is not None and self.weights == "size":
            raise ValueError("from_sets are drawn uniformly; leave out weights: size")
        return self

    def build(self) -> RandomSelector | RandomSetSelector:
        """Selector with these settings."""
        if self.from_sets is None:
            return RandomSelector(self)
        return RandomSetSelector(self)


def draw(weights: FloatArray, num: int, exponentials: FloatArray) -> IntArray:
    """Return the positions of a weighted draw without replacement, in the order drawn.

    Weights w >= 0 [n]; those of weight 0 come last, in the order of their Exp(1) variables [n]. All
    are drawn if there are fewer than `num`.

    Arrivals are 1/1, 1/4 and 3/2:

    >>> draw(np.array([1.0, 4.0, 2.0]), 2, np.array([1.0, 1.0, 3.0])).tolist()
    [1, 0]
    """
    arrivals = np.full(weights.shape, np.inf)
    np.divide(exponentials, weights, out=arrivals, where=weights > 0.0)
    return best(-arrivals, num, exponentials)


def random_clients(clients: IntArray, num: int, exponentials: FloatArray) -> IntArray:
    """Return some of these clients [n], each equally likely, in the order drawn.

    The Exp(1) variables are of the whole fleet [N]. All are drawn if there are fewer than `num`.
    """
    return clients[draw(np.ones(clients.size), num, exponentials[clients])]


class RandomSelector(ConfiguredSelector[RandomSettings]):
    """Selector of random clients, drawn anew in every slot, without a state."""

    def select(self, view: RoundView) -> IntArray:
        """Return the first `wanted` arrivals of the slot's race."""
        slot = slot_of(view.round, self._settings.slot_rounds)
        generator = rng.stream(self._fleet.seed, "select/random", slot)
        exponentials = generator.standard_exponential(self._size)
        if self._settings.weights == "uniform":
            return random_clients(view.candidates, view.wanted, exponentials)
        weights = view.num_samples.astype(np.float64)
        return view.candidates[draw(weights, view.wanted, exponentials[view.candidates])]


class RandomSetSelector(ConfiguredSelector[RandomSettings]):
    """Selector of one of the given sets, drawn anew in every slot, without a state."""

    def _begin(self, fleet: FleetView) -> None:
        self._sets = sets_of_clients(self._settings.from_sets, self._size, "from_sets")

    def select(self, view: RoundView) -> IntArray:
        """Return the set drawn, topped up from the sets after it."""
        slot = slot_of(view.round, self._settings.slot_rounds)
        uniform = float(rng.stream(self._fleet.seed, "select/random/sets", slot).random())
        line = sets_in_line(self._sets, int(uniform * len(self._sets)))
        return take_turn(line, view.wanted, self._mask(view.candidates))
