"""Networks of scenarios: building, and drawing of the initial weights.

Networks map inputs [n, *input_shape] to logits [n, num_classes], or [n, t, num_classes] for
sequences. Those for images and feature vectors take float32 and are `nn.Sequential`s with named
layers, from which a trainer finds its kernel. Those for text take tokens int64.
"""

import math
from typing import Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.model_kind import MAX_PARAMETERS, ModelKind, UserModelKind
from fleetsim.learning.models.settings import ModelSettings


@runtime_checkable
class DrawsItsWeights(Protocol):
    """A network whose initial weights are not PyTorch's default ones."""

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all weights."""


def build_model(
    settings: ModelSettings | UserModelKind, samples: SampleForm, *, seed: int
) -> nn.Module:
    """Return the network of a scenario for samples of a form, with initial weights, on the CPU.

    Weights come from the stream (seed, "model") in layer order; docs/models/models.md has their
    distributions. The global random state is neither read nor changed. A network of the user's own
    draws its weights itself.
    """
    if isinstance(settings, UserModelKind):
        return settings.initial_network(samples, seed=seed)
    _check_fit(settings, samples)
    # Layers made on the meta device draw nothing from torch's global random state.
    with torch.device("meta"):
        module = settings.build(samples)
    num_parameters = sum(parameter.numel() for parameter in module.parameters())
    if num_parameters > MAX_PARAMETERS:
        raise ScenarioError(
            f"task.model.kind: {settings.kind} has {num_parameters:.3g} parameters for samples of"
            f" the shape {samples.input_shape} and {samples.num_classes} classes; at most"
            f" {MAX_PARAMETERS:.3g} can be simulated, choose a smaller model"
        )
    _allocate(module)
    generator = torch.Generator().manual_seed(rng.torch_seed(seed, "model"))
    if isinstance(module, DrawsItsWeights):
        module.initialise(generator)
    else:
        for layer in module.modules():
            _initialise(layer, generator)
    return module


def _check_fit(settings: ModelSettings, samples: SampleForm) -> None:
    if settings.fits(samples):
        return
    key, shape = f"task.model.kind: {settings.kind}", samples.input_shape
    if settings.reads_text:
        raise ScenarioError(
            f"{key} needs text, but the samples of this data set are numbers of the shape {shape};"
            " choose another model, or a data set of text"
        )
    kinds: tuple[type[ModelKind], ...] = get_args(get_args(ModelSettings)[0])
    fitting = ", ".join(kind.model_fields["kind"].default for kind in kinds if kind.fits(samples))
    if samples.vocabulary_size is not None:
        raise ScenarioError(
            f"{key} needs numbers, but a sample of this data set is a text of {shape[0]} tokens;"
            f" what fits: {fitting}"
        )
    side = settings.min_side
    raise ScenarioError(
        f"{key} needs images (channels, height, width) of at least {side}x{side} pixels, but a"
        f" sample has the shape {shape}; what fits: {fitting}"
    )


def _allocate(module: nn.Module) -> None:
    """Give a network on the meta device memory on the CPU; tied entries stay tied.

    `Module.to_empty` does the same, but imports torch's symbolic shapes, which takes half a second.
    """
    made: dict[Tensor, Tensor] = {}
    for layer in module.modules():
        entries = {**layer._parameters, **layer._buffers}
        for name, entry in entries.items():
            if entry is None:
                continue
            if entry not in made:
                empty = torch.empty(entry.shape, dtype=entry.dtype)
                is_trained = isinstance(entry, nn.Parameter)
                made[entry] = nn.Parameter(empty) if is_trained else empty
            setattr(layer, name, made[entry])


def _initialise(layer: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of a layer itself, without its sub-layers."""
    match layer:
        case nn.Linear() | nn.Conv2d():
            # a = sqrt(5) makes He's bound sqrt(6 / ((1 + a^2) fan_in)) equal to 1/sqrt(fan_in).
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
        case nn.Embedding():
            nn.init.normal_(layer.weight, generator=generator)
        case nn.LSTM():
            bound = 1 / math.sqrt(layer.hidden_size)
            for weight in layer.parameters():
                nn.init.uniform_(weight, -bound, bound, generator=generator)
        case nn.GroupNorm() | nn.BatchNorm2d():
            layer.reset_parameters()
            if isinstance(layer, nn.BatchNorm2d):
                layer.num_batches_tracked = None
