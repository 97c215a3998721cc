"""Settings of local training, without torch."""

from typing import Annotated, Self

from annotated_types import Ge, Le
from pydantic import model_validator

from fleetsim.learning.local.algorithms.settings import AlgorithmSettings, BuiltInSettings
from fleetsim.learning.local.step_settings import StepSettings


class LocalSettings(StepSettings):
    """Local training of a client, from the model that the server sent."""

    algorithm: AlgorithmSettings = BuiltInSettings()
    """Client's part of the federated algorithm, by its kind."""
    partial_fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    """Probability that a client trains only partly in a task, as FedProx's stragglers do. The
    number of epochs (or steps) is then uniform between 1 and one less than the full number."""
    clock_fraction: Annotated[float, Ge(0.001), Le(1)] = 1.0
    """Share of its full clock at which a device trains. The part of the time that depends on the
    clock (`compute.clock_share` of its file) is divided by it; power falls with the square."""

    @model_validator(mode="after")
    def _has_a_part(self) -> Self:
        if self.partial_fraction and (self.epochs or self.steps or 0) < 2:
            raise ValueError(
                "partial_fraction needs at least 2 epochs or steps; raise them, or leave it out"
            )
        return self
