"""Base of the settings of aggregators: what a kind needs of the updates of a round."""

from typing import ClassVar

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
