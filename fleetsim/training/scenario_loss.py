"""Checks of the loss that a scenario names, before a run: alone, and with the network's trainer."""

from torch import nn

from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.local.sample_losses import HasLoss
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.quoting import quoted
from fleetsim.training.equivalence import proof_of, proved
from fleetsim.training.settings import TrainerKind, TrainerSettings


def check_scenario_loss(local: LocalSettings, module: nn.Module, samples: SampleForm) -> None:
    """Check that the clients' loss suits the network, and is one for samples of a form."""
    if local.label_smoothing and isinstance(module, HasLoss):
        raise ScenarioError(
            "task.local.label_smoothing: is of the cross-entropy, and the network has a loss of its"
            " own; leave it out"
        )
    if local.has_other_loss and isinstance(module, HasLoss):
        raise ScenarioError(
            f"task.local.loss.kind = {quoted(local.loss.kind)}: the network has a loss of its own"
            " already, its method losses; leave out one of the two"
        )
    local.loss.check_on(samples)


def trainer_for_loss(
    chosen: TrainerKind,
    requested: TrainerSettings,
    module: nn.Module,
    samples: SampleForm,
    local: LocalSettings,
) -> tuple[TrainerKind, str]:
    """Return the trainer for a loss of the scenario's on a network of fleetsim's, and the reason.

    `chosen` is the trainer that the network would have. Trainers of one client at a time call the
    loss as the serial one does. The vectorised one calls it for the samples of many clients at
    once, so it must be proved: else it is a ScenarioError to name it.
    """
    if chosen != "vectorised":
        return chosen, "the loss is called for one client at a time"
    proof = proof_of(chosen, module, samples, local.loss)
    if proof.fault is None:
        return chosen, proved(proof)
    message = f"vectorised is not proved equal with the loss {local.loss.kind}: {proof.fault}"
    if requested.kind != "auto":
        raise ScenarioError(f"trainer.kind: {message}; use auto or serial")
    return "serial", message
