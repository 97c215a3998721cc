"""Base of the settings of aggregators, and the aggregators that keep nothing between rounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from fleetsim.contracts import BoolArray, Parameters, Report, State
from fleetsim.settings import Settings


class AggregatorKind(Settings):
    """Settings of one kind of aggregator."""

    kind: str
    sees_single_updates: ClassVar[bool] = False
    """True if the next model is no function of a weighted sum of the updates."""
    weights_parts: ClassVar[bool] = True
    """True if a part of a training can count for less than a whole one."""

    def needs_single_updates(self) -> bool:
        """Return `sees_single_updates`; a plug-in's is known once its object is made."""
        return self.sees_single_updates

    @property
    def least_updates(self) -> int:
        """Least number of updates of which it makes a model."""
        return 1


class RuleKind(AggregatorKind):
    """Settings of an aggregator without state, which compute its model."""

    def build(self, *, buffers: BoolArray | None = None) -> Stateless:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return Stateless(self, buffers)

    @abstractmethod
    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the next model [P], a new array; the arguments are those of an aggregator."""


class Stateless:
    """Aggregator whose model follows from the updates alone."""

    def __init__(self, rule: RuleKind, buffers: BoolArray | None) -> None:
        self._rule = rule
        self._buffers = buffers

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P]."""
        return self._rule.next_model(base, reports, self._buffers)

    def state(self) -> State:
        """Return the empty state."""
        return {}

    def restore(self, state: State) -> None:
        """Restore the empty state."""
