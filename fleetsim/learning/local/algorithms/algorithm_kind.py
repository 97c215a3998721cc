"""Interface of the algorithms of clients that a scenario can name, without torch."""

from typing import ClassVar

from fleetsim.contracts import ClientTraining
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.settings import Settings

Fault = tuple[str, str]
"""Key of `task.local`, and why it does not suit an algorithm."""


class AlgorithmKind(Settings):
    """Settings of one kind of algorithm, which build it."""

    needs_fedavg: ClassVar[bool] = False
    """True if its equations ask for the mean of the delivered models."""
    has_server_part: ClassVar[bool] = False
    """True if it is a `ServerPart`; of a plug-in it is known once it is made."""

    def build(self) -> ClientTraining | None:
        """Return the algorithm; None: the built-in local training."""
        return None

    def fault(self, local: StepSettings) -> Fault | None:
        """Return what does not suit the algorithm; None: everything does."""
        return None
