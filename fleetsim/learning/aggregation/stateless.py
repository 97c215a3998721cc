"""Base of aggregators that keep nothing between rounds."""

from fleetsim.contracts import State


class Stateless:
    """Empty state of an aggregator; a kind that keeps anything must not inherit it."""

    def state(self) -> State:
        """Return the empty state."""
        return {}

    def restore(self, state: State) -> None:
        """Restore the empty state."""
