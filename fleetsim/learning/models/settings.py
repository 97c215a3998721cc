"""Settings of the models that a scenario can name, without torch."""

from __future__ import annotations

import importlib
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic import Field, model_validator

from fleetsim.contracts import ModelCost, SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.model_kind import Hinge, ModelKind
from fleetsim.learning.models.paper_cost import CostSettings

if TYPE_CHECKING:
    from torch import nn

Units = Annotated[int, Gt(0), Le(1_000_000)]
"""Units of a layer."""


class NetworkKind(ModelKind):
    """Settings of a network of fleetsim's own."""

    network: ClassVar[str]
    """Module beside this one, and what makes the network in it, `MODULE:NAME`: a function or class
    that takes the samples' form and the keys of these settings but `kind`."""

    def build(self, samples: SampleForm) -> nn.Module:
        """Return the network; see `ModelKind`."""
        module, name = self.network.split(":")
        make = getattr(importlib.import_module(f"fleetsim.learning.models.{module}"), name)
        made: nn.Module = make(samples, **{key: value for key, value in self if key != "kind"})
        return made


class ChainKind(NetworkKind):
    """Settings of a chain of linear layers."""

    trainers: ClassVar[frozenset[str]] = frozenset({"serial", "stacked", "vectorised"})

    def chain_cost(self, samples: SampleForm) -> ModelCost:
        """Return what `model_cost` reads off the network, from the widths of its layers alone."""
        hidden: tuple[int, ...] = getattr(self, "hidden", ())
        widths = math.prod(samples.input_shape), *hidden, samples.num_classes
        layers = {"gemm": len(widths) - 1}
        num_weights = sum(inputs * outputs for inputs, outputs in pairwise(widths))
        num_parameters = num_weights + sum(widths[1:])
        flop = {"gemm": 2.0 * num_weights}
        return ModelCost(flop, num_parameters, 4 * num_parameters, layers["gemm"], layers)


class ImageKind(NetworkKind):
    """Settings of a network for images."""

    trainers: ClassVar[frozenset[str]] = frozenset({"serial", "channels-last", "vectorised"})


class LogisticSettings(ChainKind):
    """Multinomial logistic regression: one linear layer."""

    network: ClassVar[str] = "small:logistic"

    kind: Literal["logistic"] = "logistic"


class SvmSettings(ChainKind):
    """Linear support vector machine for several classes: one linear layer, hinge loss."""

    network: ClassVar[str] = "small:svm"

    kind: Literal["svm"] = "svm"
    hinge: Hinge = "crammer-singer"
    """Loss that the layer minimises: margin of the right class over the highest other score, over
    every other score, or of each class by itself; add weight_decay for the usual L2 penalty."""


class TwoNNSettings(ChainKind):
    """The "2NN" of McMahan et al. (2017): two hidden layers with ReLU; GPFL's MLP with [64, 30]."""

    network: ClassVar[str] = "small:two_nn"

    kind: Literal["2nn"] = "2nn"
    hidden: tuple[Units, Units] = (200, 200)
    """Units of the first and of the second hidden layer."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Chance that a unit of either is left out in a step of training, before its ReLU; above 0
    clients are trained one at a time."""


class FedGraCnnSettings(ImageKind):
    """The CNN of FedGRA (arXiv 2310.08147, table III): two 5x5 convolutions, 512 units."""

    min_side: ClassVar[int | None] = 4
    network: ClassVar[str] = "small:fedgra_cnn"

    kind: Literal["fedgra-cnn"] = "fedgra-cnn"


class GpflCnnSettings(ImageKind):
    """The CNN of GPFL and FedCor: three 3x3 convolutions (32, 64, 64), 64 units."""

    min_side: ClassVar[int | None] = 18
    network: ClassVar[str] = "small:gpfl_cnn"

    kind: Literal["gpfl-cnn"] = "gpfl-cnn"


class LeNet5Settings(ImageKind):
    """LeNet-5 (LeCun et al. 1998) with ReLU and max-pooling."""

    min_side: ClassVar[int | None] = 12
    network: ClassVar[str] = "small:lenet5"

    kind: Literal["lenet5"] = "lenet5"


Norm = Literal["batch", "group"]
"""`batch`: BatchNorm, whose running statistics travel with the model and are averaged like its
weights. `group`: GroupNorm with two groups, which depends neither on the batch nor on the clients'
mix of classes, and which federated image models use (Hsieh et al. 2020, Reddi et al. 2021)."""


class NormedKind(ImageKind):
    """Settings of a published network for images, whose layers are normalised."""

    norm: Norm = "group"
    """Normalisation of the layers: by batch, or in two groups of channels."""


class ResNet18Settings(NormedKind):
    """ResNet-18 (He et al. 2016) for small images: 3x3 stem, no pooling before the blocks."""

    min_side: ClassVar[int | None] = 9
    network: ClassVar[str] = "vision:resnet18"

    kind: Literal["resnet18"] = "resnet18"
    width: Annotated[int, Ge(2), Le(1024), MultipleOf(2)] = 64
    """Channels of the first stage; each later one has twice those of the one before. With a quarter
    of the width, training takes a sixteenth of the arithmetic."""


class Vgg16Settings(NormedKind):
    """VGG-16 (Simonyan, Zisserman 2015) for small images: 13 convolutions, one linear layer."""

    min_side: ClassVar[int | None] = 32
    network: ClassVar[str] = "vision:vgg16"

    kind: Literal["vgg16"] = "vgg16"


class ShuffleNetV2Settings(NormedKind):
    """ShuffleNet v2 1.0x (Ma et al. 2018) for small images: 3x3 stem without stride or pooling."""

    min_side: ClassVar[int | None] = 9
    network: ClassVar[str] = "vision:shufflenet_v2"

    kind: Literal["shufflenet-v2"] = "shufflenet-v2"


class LstmSettings(NetworkKind):
    """Embedding, LSTM layers and one linear layer, for text; as set, LEAF's next-character model.

    McMahan et al. 2017, in the form of Caldas et al. 2018.
    """

    reads_text: ClassVar[bool] = True
    network: ClassVar[str] = "text:Lstm"

    kind: Literal["lstm"] = "lstm"
    embedding: Units = 8
    """Numbers that represent one token."""
    hidden: Units = 256
    """Units of every LSTM layer."""
    layers: Annotated[int, Ge(1), Le(16)] = 2
    """LSTM layers, one on top of the other."""


class Gpt2Settings(NetworkKind):
    """GPT-2 (Radford et al. 2019) of any size, for text; as set, its smallest published form.

    The context is as long as the data set's samples. Weights begin at random.
    """

    reads_text: ClassVar[bool] = True
    trainers: ClassVar[frozenset[str]] = frozenset({"serial", "vectorised"})
    network: ClassVar[str] = "text:Gpt2"

    kind: Literal["gpt2"] = "gpt2"
    layers: Annotated[int, Ge(1), Le(1000)] = 12
    """Blocks of attention and two linear layers."""
    heads: Annotated[int, Ge(1), Le(1000)] = 12
    """Attention heads of a block; they divide its width equally."""
    width: Units = 768
    """Numbers that represent one token in every layer; a multiple of heads."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} is no multiple of heads {self.heads}; make it one"
            )
        return self

    @property
    def is_transformer(self) -> bool:
        """True."""
        return True

    def build(self, samples: SampleForm) -> nn.Module:
        """Return the network, for text alone."""
        if samples.num_classes != samples.vocabulary_size:
            raise ScenarioError(
                f"task.model.kind: gpt2 predicts one of the {samples.vocabulary_size} tokens, but"
                f" the labels of this data set are {samples.num_classes} classes; choose lstm"
            )
        return super().build(samples)


ModelSettings = Annotated[
    LogisticSettings
    | SvmSettings
    | TwoNNSettings
    | FedGraCnnSettings
    | GpflCnnSettings
    | LeNet5Settings
    | ResNet18Settings
    | Vgg16Settings
    | ShuffleNetV2Settings
    | LstmSettings
    | Gpt2Settings
    | CostSettings,
    Field(discriminator="kind"),
]
