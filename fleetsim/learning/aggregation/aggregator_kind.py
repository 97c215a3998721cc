"""Base of the settings of aggregators, and of the aggregators that keep nothing between rounds."""

from typing import ClassVar, Generic, TypeVar

from fleetsim.contracts import BoolArray, State
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


_Kind = TypeVar("_Kind", bound=AggregatorKind)


class Stateless(Generic[_Kind]):
    """Aggregator without state; a kind that keeps anything must not inherit it."""

    def __init__(self, settings: _Kind, *, buffers: BoolArray | None = None) -> None:
        """Build it; `buffers` [P] are true where the model has no parameter."""
        self._settings = settings
        self._buffers = buffers

    def state(self) -> State:
        """Return the empty state."""
        return {}

    def restore(self, state: State) -> None:
        """Restore the empty state."""
