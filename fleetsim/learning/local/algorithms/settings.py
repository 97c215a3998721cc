"""Settings of the algorithms of clients that a scenario can name, without torch."""

from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
from pydantic import Field

from fleetsim.contracts import ClientTraining
from fleetsim.learning.local.optimizer_settings import ConstantRateSettings, SgdSettings
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.schema.ranges import StepFactor
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


class BuiltInSettings(AlgorithmKind):
    """Local training as the other keys of `task.local` say."""

    kind: Literal["none"] = "none"


class PublishedKind(AlgorithmKind):
    """Settings of an algorithm of `published`."""

    algorithm: ClassVar[str]
    """Class in `published` that takes the keys of these settings but `kind`."""

    def build(self) -> ClientTraining:
        """Return the algorithm."""
        from fleetsim.learning.local.algorithms import published  # noqa: PLC0415 - loads torch

        make: type[ClientTraining] = getattr(published, self.algorithm)
        return make(**{key: value for key, value in self if key != "kind"})


class ScaffoldSettings(PublishedKind):
    """Steps corrected by control variates of client and server (Karimireddy et al. 2020)."""

    has_server_part: ClassVar[bool] = True
    algorithm: ClassVar[str] = "Scaffold"

    kind: Literal["scaffold"] = "scaffold"

    def fault(self, local: StepSettings) -> Fault | None:
        """Return what is not plain SGD, whose steps its control variates are computed from."""
        sgd, message = local.optimizer, "scaffold computes its control variates from steps of plain"
        if not isinstance(sgd, SgdSettings) or sgd.momentum:
            return "optimizer", f"{message} sgd; set kind: sgd without momentum"
        if not isinstance(sgd.within_task, ConstantRateSettings):
            return "optimizer", f"{message} sgd at one rate in a task; leave out within_task"
        if local.max_gradient_norm is not None:
            return "max_gradient_norm", f"{message} sgd, which are not clipped; leave it out"
        if local.proximal_mu:
            return "proximal_mu", f"{message} sgd without a proximal term; leave it out"
        return None


class FedDynSettings(PublishedKind):
    """Dynamic regularisation of the clients' objectives (Acar et al. 2021)."""

    acts_if = by_key(alpha=TRAINING)
    needs_fedavg: ClassVar[bool] = True
    has_server_part: ClassVar[bool] = True
    algorithm: ClassVar[str] = "FedDyn"

    kind: Literal["feddyn"] = "feddyn"
    alpha: Annotated[StepFactor, Ge(1e-12)] = 0.1
    """Weight of the regulariser; its authors use 0.1, 0.01 and 0.001."""

    def fault(self, local: StepSettings) -> Fault | None:
        """Return a proximal term, which the algorithm has itself."""
        if local.proximal_mu:
            return "proximal_mu", "feddyn has a proximal term of its own, alpha; leave it out"
        return None


class DittoSettings(PublishedKind):
    """Personal model of each client, held near the global one (Li et al. 2021)."""

    acts_if = by_key(personal_weight=TRAINING)
    algorithm: ClassVar[str] = "Ditto"

    kind: Literal["ditto"] = "ditto"
    personal_weight: Annotated[StepFactor, Ge(0)] = 0.1
    """Weight of the term that holds a personal model near the global one (lambda)."""


UNCOVERED = (
    "covers models alone, and task.local.algorithm.kind = {kind!r} lets the server read more of"
    " each client; leave it out, or choose an algorithm without a part on the server, such as ditto"
)
"""Fault of `server.privacy` and `server.secure_aggregation` beside a part on the server."""

AlgorithmSettings = Annotated[
    BuiltInSettings | ScaffoldSettings | FedDynSettings | DittoSettings, Field(discriminator="kind")
]
"""Settings of any algorithm of clients, told apart by `kind`."""
