"""Settings of the loss that clients minimise, without torch."""

from typing import Annotated, Literal

from pydantic import Field

from fleetsim.contracts import Loss, SampleForm
from fleetsim.settings import Settings


class LossKind(Settings):
    """Settings of one kind of loss, which build it."""

    kind: str

    def build(self) -> Loss | None:
        """Return the loss; None: the network's own, or the cross-entropy."""
        return None

    def check_on(self, samples: SampleForm) -> None:
        """Check a loss of the user's own on drawn logits for samples of a form."""


class OfModelSettings(LossKind):
    """The network's own loss, such as the hinge loss of `svm`, and else the cross-entropy."""

    kind: Literal["of-model"] = "of-model"


MODEL_LOSS = OfModelSettings()
"""The default."""


class FocalSettings(LossKind):
    """Cross-entropy in which samples that are classified well count less (Lin et al. 2017)."""

    kind: Literal["focal"] = "focal"
    gamma: Annotated[float, Field(ge=0.0, le=100.0)] = 2.0
    """Exponent of 1 - p, p the probability of the right class; 2 is its authors' choice, 0 is the
    cross-entropy."""

    def build(self) -> Loss:
        """Return the loss."""
        from fleetsim.learning.local.sample_losses import FocalLoss  # noqa: PLC0415

        return FocalLoss(self.gamma)


LossSettings = Annotated[OfModelSettings | FocalSettings, Field(discriminator="kind")]
"""Settings of any loss, told apart by `kind`."""
