"""Settings of the learning task and of its computation on the host, without torch."""

from typing import Annotated, Literal

from pydantic import Field

from fleetsim.learning.data.built_in import BlankSettings
from fleetsim.learning.data.loading import DatasetSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import Precision
from fleetsim.learning.models.paper_cost import CostSettings
from fleetsim.learning.models.settings import ModelSettings
from fleetsim.learning.partition.client_samples import HoldoutFrom, PartitionSettings
from fleetsim.learning.partition.plain import IidSettings
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.settings import Settings

TrainerKind = Literal["serial", "stacked", "channels-last", "vectorised"]


class TaskSettings(Settings):
    """Learning task: data, their partition, the model and its local training."""

    dataset: Annotated[DatasetSettings | BlankSettings, Field(discriminator="kind")]
    """Samples of the clients and of the test, by their kind."""
    partition: PartitionSettings = IidSettings()
    """Division of the training samples among the clients, by its kind."""
    holdout_fraction: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Share of its own samples, one at least, that each client does not train with. It evaluates
    models on them when a selector asks for it; 0: it evaluates on its training samples."""
    holdout_from: HoldoutFrom = "own"
    """Samples on which a client evaluates models: those that it held out itself, or as many of
    those that all clients held out, assigned at random."""
    model: ModelSettings
    """Network that is trained, by its kind."""
    local: LocalSettings
    """Local training of a client."""

    @property
    def can_train(self) -> bool:
        """True if there are samples to train on, and a network."""
        return not isinstance(self.dataset, BlankSettings) and not isinstance(
            self.model, CostSettings
        )


class TrainerSettings(Settings):
    """Computation of the clients' training on the host, without influence on virtual time."""

    acts_if = by_key(kind=TRAINING, precision=TRAINING)

    kind: Literal["auto"] | TrainerKind = "auto"
    """serial: one client at a time, the plain reference; stacked: many clients at once, for
    logistic, svm and 2nn; channels-last: one client at a time, for networks on images; vectorised:
    many at once, for all but lstm; auto: the fastest that was measured. They differ by rounding."""
    precision: Precision = "float32"
    """mixed: bfloat16 for the products of forward and backward passes, float32 for the weights; for
    vectorised training, meant for cuda devices."""
