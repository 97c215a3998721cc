"""Which network a scenario trains, and how its weights become one flat vector and back.

Networks map inputs [n, *input_shape] to logits [n, num_classes], or [n, t, num_classes] for
sequences. Those for images and feature vectors take float32 and are `nn.Sequential`s with named
layers, so that a trainer can tell from the layers what it trains; those for text take tokens int64.

A flat vector [P] holds every floating-point entry of the state dict (parameters, and buffers such
as the running means of a BatchNorm) in state-dict order, each flattened row-major. Integer buffers
are not in it, and the networks built here have none: BatchNorm's count of the batches that it saw
is left out, because nothing reads it where the running statistics decay at a fixed rate. So the
vector is all that a network remembers. `layout` says which part of it belongs to which entry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import Parameters
from fleetsim.errors import ScenarioError
from fleetsim.learning.models import small, vision
from fleetsim.learning.models.hinge_loss import LinearSvm
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    GpflCnnSettings,
    Gpt2Settings,
    LeNet5Settings,
    LogisticSettings,
    LstmSettings,
    ModelSettings,
    ResNet18Settings,
    ShuffleNetV2Settings,
    SvmSettings,
    TwoNNSettings,
    Vgg16Settings,
)
from fleetsim.learning.models.text import Gpt2, text_network
from fleetsim.learning.models.vision import NORMS, Layers, resnet18, shufflenet_v2, vgg16

_MIN_SIDE = {**small.MIN_SIDE, **vision.MIN_SIDE}
"""Smallest image side (pixels) that survives the pooling; None: samples of any shape."""

_TEXT = ("lstm", "gpt2")

_VISION = {"resnet18": resnet18, "vgg16": vgg16, "shufflenet-v2": shufflenet_v2}

_MAX_PARAMETERS = 1_000_000_000
"""Every task in flight holds a copy of them, 4 byte each."""


def build_model(
    settings: ModelSettings,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    vocabulary_size: int | None = None,
    is_sequence: bool = False,
    seed: int,
) -> nn.Module:
    """The network of a scenario with its initial weights, on the CPU.

    Weights come from the stream (seed, "model") in layer order and from PyTorch's default
    distributions: those of linear and convolutional layers uniform in +-1/sqrt(fan_in), of an LSTM
    in +-1/sqrt(hidden), embeddings standard normal. Normalisation begins with scale 1, shift 0,
    running mean 0 and variance 1. GPT-2 has its own: see `Gpt2.initialise`. The global random state
    is neither read nor changed.

    Args:
        settings: which network.
        input_shape: shape of one sample; (channels, height, width) for the convolutional ones,
            (tokens,) for text.
        num_classes: number of logits.
        vocabulary_size: of text, how many tokens there are; None: samples are no text.
        is_sequence: whether there is a label at every position, or one for the sample.
        seed: root seed of the run.

    Raises:
        ScenarioError: the network does not fit samples of this shape, or is too large.
    """
    _check_text(settings.kind, input_shape, vocabulary_size)
    module: nn.Module
    # Layers made on the meta device draw nothing from torch's global random state.
    with torch.device("meta"):
        match settings:
            case LstmSettings() | Gpt2Settings():
                assert vocabulary_size is not None
                module = text_network(
                    settings,
                    context=input_shape[0],
                    num_classes=num_classes,
                    vocabulary_size=vocabulary_size,
                    is_sequence=is_sequence,
                )
            case SvmSettings():
                layers = small.logistic(input_shape, num_classes)
                module = LinearSvm(layers, settings.hinge)
            case _:
                module = nn.Sequential(_layers(settings, input_shape, num_classes))
    num_parameters = sum(parameter.numel() for parameter in module.parameters())
    if num_parameters > _MAX_PARAMETERS:
        raise ScenarioError(
            f"task.model.kind: {settings.kind} has {num_parameters:.3g} parameters for samples of"
            f" the shape {input_shape} and {num_classes} classes; at most {_MAX_PARAMETERS:.3g}"
            " can be simulated, choose a smaller model"
        )
    _allocate(module)
    generator = torch.Generator().manual_seed(rng.torch_seed(seed, "model"))
    if isinstance(module, Gpt2):
        module.initialise(generator)
    else:
        for layer in module.modules():
            _initialise(layer, generator)
    return module


def _check_text(kind: str, input_shape: tuple[int, ...], vocabulary_size: int | None) -> None:
    """A network for text needs text, and text such a network."""
    if kind in _TEXT and vocabulary_size is None:
        raise ScenarioError(
            f"task.model.kind: {kind} needs text, but the samples of this data set are numbers of"
            f" the shape {input_shape}; choose another model, or a data set of text"
        )
    if kind not in _TEXT and vocabulary_size is not None:
        raise ScenarioError(
            f"task.model.kind: {kind} needs numbers, but a sample of this data set is a text of"
            f" {input_shape[0]} tokens; what fits: {', '.join(_TEXT)}"
        )


def _layers(settings: ModelSettings, input_shape: tuple[int, ...], num_classes: int) -> Layers:
    """Named layers of a network for images or feature vectors."""
    match settings:
        case LogisticSettings():
            return small.logistic(input_shape, num_classes)
        case TwoNNSettings():
            return small.two_nn(input_shape, num_classes, settings.hidden, settings.dropout)
        case FedGraCnnSettings():
            return small.fedgra_cnn(_image(settings.kind, input_shape), num_classes)
        case GpflCnnSettings():
            return small.gpfl_cnn(_image(settings.kind, input_shape), num_classes)
        case LeNet5Settings():
            return small.lenet5(_image(settings.kind, input_shape), num_classes)
        case ResNet18Settings() | Vgg16Settings() | ShuffleNetV2Settings():
            image, norm = _image(settings.kind, input_shape), NORMS[settings.norm]
            return _VISION[settings.kind](image, num_classes, norm)
        case _:
            raise ValueError(f"{settings.kind} is no network of such layers")


def _image(kind: str, input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width), if the network of that kind fits it."""
    if not _fits(kind, input_shape):
        side = _MIN_SIDE[kind]
        fitting = ", ".join(other for other in _MIN_SIDE if _fits(other, input_shape))
        raise ScenarioError(
            f"task.model.kind: {kind} needs images (channels, height, width) of at least"
            f" {side}x{side} pixels, but a sample has the shape {input_shape};"
            f" what fits: {fitting}"
        )
    channels, height, width = input_shape
    return channels, height, width


def _fits(kind: str, input_shape: tuple[int, ...]) -> bool:
    side = _MIN_SIDE[kind]
    return side is None or (len(input_shape) == 3 and min(input_shape[1:]) >= side)


def _allocate(module: nn.Module) -> None:
    """Give a network that was made on the meta device memory on the CPU; what is tied stays tied.

    As `Module.to_empty` does, which imports torch's symbolic shapes for it, half a second.
    """
    made: dict[Tensor, Tensor] = {}
    for layer in module.modules():
        own = {**layer._parameters, **layer._buffers}
        for name, entry in own.items():
            if entry is None:
                continue
            if entry not in made:
                empty = torch.empty(entry.shape, dtype=entry.dtype)
                is_trained = isinstance(entry, nn.Parameter)
                made[entry] = nn.Parameter(empty) if is_trained else empty
            setattr(layer, name, made[entry])


def _initialise(layer: nn.Module, generator: torch.Generator) -> None:
    """Draw what the layer holds itself, outside its sub-layers."""
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


# --- flat vectors -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one entry of the state dict lies in the flat vector."""

    name: str
    """Key in the state dict, such as `fc1.weight`."""
    shape: tuple[int, ...]
    start: int
    stop: int
    is_trained: bool
    """False for a buffer: it has no gradient."""


def layout(module: nn.Module) -> tuple[Slot, ...]:
    """Slots of the flat vector in order; together they cover [0, P) without gaps.

    >>> [(slot.name, slot.start, slot.stop) for slot in layout(nn.Linear(3, 2))]
    [('weight', 0, 6), ('bias', 6, 8)]
    """
    trained = {name for name, _ in module.named_parameters()}
    slots = []
    start = 0
    for name, value in _entries(module).items():
        stop = start + value.numel()
        slots.append(Slot(name, tuple(value.shape), start, stop, name in trained))
        start = stop
    return tuple(slots)


def flatten(module: nn.Module) -> Parameters:
    """Flat vector [P] of the weights: a copy, float32 like every network of `build_model`."""
    return join(module, _entries(module))


def join(module: nn.Module, values: Mapping[str, Tensor]) -> Parameters:
    """Flat vector [P] of one value per state-dict entry, zero where an entry has none.

    Args:
        module: the network whose layout the vector has.
        values: tensors by state-dict key, shaped like the entry, such as its gradients.
    """
    parts = [
        values[name].reshape(-1) if name in values else torch.zeros_like(entry).reshape(-1)
        for name, entry in _entries(module).items()
    ]
    flat: Parameters = torch.cat(parts).cpu().numpy()
    return flat


def load_flat(module: nn.Module, vector: Parameters) -> None:
    """Copy a flat vector [P] into the module's parameters and buffers.

    Raises:
        ValueError: the vector has another length than the module's.
    """
    slots = layout(module)
    if vector.shape != (slots[-1].stop,):
        raise ValueError(f"a flat vector of shape {vector.shape} for {slots[-1].stop} weights")
    entries = _entries(module)
    device = entries[slots[0].name].device
    flat = torch.tensor(vector, device=device)
    for slot in slots:
        entries[slot.name].copy_(flat[slot.start : slot.stop].view(slot.shape))


def _entries(module: nn.Module) -> dict[str, Tensor]:
    """Floating-point entries of the state dict, detached, sharing the module's memory."""
    return {name: value for name, value in module.state_dict().items() if value.is_floating_point()}
