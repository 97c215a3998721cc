"""Choice of the trainer that computes a scenario's jobs, and of its kernel.

The choice follows a fixed rule, so that equal scenarios get equal trainers. The module imports
torch only to build a kernel, so that validation does not wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, get_args, runtime_checkable

from fleetsim.contracts import IntArray, ModelCost, SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.model_kind import UserModelKind
from fleetsim.learning.models.paper_cost import CostSettings
from fleetsim.learning.models.settings import Gpt2Settings, ModelSettings, TwoNNSettings
from fleetsim.training.settings import TrainerKind, TrainerSettings

if TYPE_CHECKING:
    from torch import nn

    from fleetsim.kernels.base import Kernel

TRAINS: Mapping[TrainerKind, frozenset[str]] = {
    trainer: frozenset(
        model.model_fields["kind"].default
        for model in get_args(get_args(ModelSettings)[0])
        if trainer in model.trainers
    )
    for trainer in get_args(TrainerKind)
}
"""Kinds of models that each kind of trainer can train."""

MAX_VECTORISED_WIDTH = 32
"""Largest width of a gpt2 for which vectorised training was faster than serial on a CPU."""


class TrainerQuestion(NamedTuple):
    """Facts on which the choice of a trainer for a network of the user's own depends."""

    requested: TrainerSettings
    """The scenario's trainer; `auto` for the fastest."""
    module: nn.Module
    """Network on the CPU; it does not change."""
    samples: SampleForm
    cost: ModelCost
    num_samples: IntArray
    """Training samples of every client [N]."""
    local: LocalSettings
    """The clients' training: not every trainer has every optimizer."""
    torch_device: str


@runtime_checkable
class ChoosesTrainer(Protocol):
    """Settings of a network that choose its trainer themselves: one of the user's own."""

    def proved_trainer(self, asked: TrainerQuestion) -> tuple[TrainerKind, str]:
        """Check that the network can be trained; return its trainer, and the reason in one line.

        ScenarioError: it cannot be trained, or not by the trainer that the scenario names.
        """


def choose_trainer(
    requested: TrainerSettings, model: ModelSettings, local: LocalSettings, *, torch_device: str
) -> TrainerKind:
    """Return the kind of trainer; for `auto` the one measured to be fastest for such models.

    ScenarioError: the scenario's trainer cannot train its model, or not on this torch device.
    """
    message = fault(requested, model, local)
    if message is not None:
        raise ScenarioError(f"trainer.{message[0]}: {message[1]}")
    if requested.kind == "auto":
        return _fastest(model, local, on_cpu=torch_device == "cpu")
    if requested.kind == "channels-last" and torch_device != "cpu":
        raise ScenarioError(
            "trainer.kind: channels-last trains on the CPU alone; use auto, or --torch-device cpu"
        )
    return requested.kind


def _fastest(model: ModelSettings, local: LocalSettings, *, on_cpu: bool) -> TrainerKind:
    if _has_dropout(model) or local.algorithm.kind != "none":
        return "serial"
    if model.kind in TRAINS["stacked"] and local.is_plain:
        return "stacked"
    is_vectorised = model.kind in TRAINS["vectorised"] and local.augmentation.is_none
    if model.kind in TRAINS["stacked"] or not on_cpu:
        return "vectorised" if is_vectorised else "serial"
    if model.kind in TRAINS["channels-last"]:
        return "channels-last"
    if is_vectorised and isinstance(model, Gpt2Settings) and model.width <= MAX_VECTORISED_WIDTH:
        return "vectorised"
    return "serial"


def fault(
    requested: TrainerSettings, model: ModelSettings | UserModelKind, local: LocalSettings
) -> tuple[str, str] | None:
    """Return the wrong key of `trainer` and the reason; None if the settings suit the model."""
    if requested.precision == "mixed" and requested.kind != "vectorised":
        return "precision", "mixed is for trainer.kind = vectorised; leave it out, or set that"
    if requested.kind not in ("auto", "serial") and _has_dropout(model):
        return (
            "kind",
            f"{requested.kind} trains without dropout; use auto or serial, or leave it out",
        )
    if requested.kind not in ("auto", "serial") and local.algorithm.kind != "none":
        message = f"cannot compute task.local.algorithm.kind = {local.algorithm.kind!r}"
        return "kind", f"{requested.kind} {message}; use auto or serial"
    if requested.kind in ("stacked", "vectorised") and not local.augmentation.is_none:
        message = "trains on samples as they are, without augmentation; use auto or serial"
        return "kind", f"{requested.kind} {message}"
    if requested.kind == "stacked" and not local.is_plain:
        message = (
            "stacked trains by sgd with momentum alone: no nesterov, dampening, other optimizer,"
            " within_task schedule, max_gradient_norm, label_smoothing or loss; use auto or"
            " vectorised"
        )
        return "kind", message
    if isinstance(model, CostSettings):
        return None  # nothing is trained, of which there is a warning
    if isinstance(model, UserModelKind):
        return None  # every trainer is tried on the network itself, see `ChoosesTrainer`
    if requested.kind == "auto" or model.kind in TRAINS[requested.kind]:
        return None
    those = ", ".join(sorted(TRAINS[requested.kind]))
    return "kind", f"{requested.kind} trains {those} alone, not {model.kind}; use auto or serial"


def _has_dropout(model: ModelSettings | UserModelKind) -> bool:
    return isinstance(model, TwoNNSettings) and model.dropout > 0.0


def kernel_class(kind: TrainerKind, *, is_accessed: bool = False) -> type[Kernel]:
    """Import and return the kernel of a kind of trainer; "serial" if samples are accessed."""
    match kind:
        case "serial":
            if is_accessed:
                from fleetsim.kernels.access_kernel import AccessKernel  # noqa: PLC0415

                return AccessKernel
            from fleetsim.kernels.base import Kernel  # noqa: PLC0415

            return Kernel
        case "stacked":
            from fleetsim.kernels.stacked.stacked_sgd import StackedKernel  # noqa: PLC0415

            return StackedKernel
        case "channels-last":
            from fleetsim.kernels.conv.channels_last import ChannelsLastKernel  # noqa: PLC0415

            return ChannelsLastKernel
        case "vectorised":
            from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel  # noqa: PLC0415

            return VectorisedKernel
