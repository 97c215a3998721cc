"""Settings of the models that a scenario can name, without torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import Field, model_validator

from fleetsim.settings import Settings

Units = Annotated[int, Gt(0), Le(1_000_000)]
"""Units of a layer."""


class LogisticSettings(Settings):
    """Multinomial logistic regression: one linear layer."""

    kind: Literal["logistic"] = "logistic"


Hinge = Literal["crammer-singer", "weston-watkins", "one-vs-rest"]
"""Hinge loss of several classes: of the worst rival of the right class; summed over all rivals;
summed over one binary machine a class."""


class SvmSettings(Settings):
    """Linear support vector machine for several classes: one linear layer, hinge loss."""

    kind: Literal["svm"] = "svm"
    hinge: Hinge = "crammer-singer"
    """What the layer minimises, by the margin of the right class over the worst other one, over
    every other one, or of each class by itself; add weight_decay for the usual L2 penalty."""


class TwoNNSettings(Settings):
    """The "2NN" of McMahan et al. (2017): two hidden layers with ReLU; GPFL's MLP with [64, 30]."""

    kind: Literal["2nn"] = "2nn"
    hidden: tuple[Units, Units] = (200, 200)
    """Units of the first and of the second hidden layer."""
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Chance that a unit of either is left out in a step of training, before its ReLU; above 0 one
    client is trained after the other."""


class FedGraCnnSettings(Settings):
    """The CNN of FedGRA (arXiv 2310.08147, table III): two 5x5 convolutions, 512 units."""

    kind: Literal["fedgra-cnn"] = "fedgra-cnn"


class GpflCnnSettings(Settings):
    """The CNN of GPFL and FedCor: three 3x3 convolutions (32, 64, 64), 64 units."""

    kind: Literal["gpfl-cnn"] = "gpfl-cnn"


class LeNet5Settings(Settings):
    """LeNet-5 (LeCun et al. 1998) with ReLU and max-pooling."""

    kind: Literal["lenet5"] = "lenet5"


Norm = Literal["batch", "group"]
"""`batch`: BatchNorm, whose running statistics travel with the model and are averaged like its
weights. `group`: GroupNorm with two groups, which depends neither on the batch nor on the clients'
mix of classes, and is what federated image models use (Hsieh et al. 2020, Reddi et al. 2021)."""


class ResNet18Settings(Settings):
    """ResNet-18 (He et al. 2016) for small images: 3x3 stem, no pooling before the blocks."""

    kind: Literal["resnet18"] = "resnet18"
    norm: Norm = "group"
    """How layers are normalised: by batch, or in two groups of channels."""


class Vgg16Settings(Settings):
    """VGG-16 (Simonyan, Zisserman 2015) for small images: 13 convolutions, one linear layer."""

    kind: Literal["vgg16"] = "vgg16"
    norm: Norm = "group"
    """How layers are normalised: by batch, or in two groups of channels."""


class ShuffleNetV2Settings(Settings):
    """ShuffleNet v2 1.0x (Ma et al. 2018) for small images: 3x3 stem without stride or pooling."""

    kind: Literal["shufflenet-v2"] = "shufflenet-v2"
    norm: Norm = "group"
    """How layers are normalised: by batch, or in two groups of channels."""


class LstmSettings(Settings):
    """Embedding, LSTM layers and one linear layer, for text; as set, LEAF's next-character model.

    McMahan et al. 2017, in the form of Caldas et al. 2018.
    """

    kind: Literal["lstm"] = "lstm"
    embedding: Units = 8
    """Numbers that stand for one token."""
    hidden: Units = 256
    """Units of every LSTM layer."""
    layers: Annotated[int, Ge(1), Le(16)] = 2
    """LSTM layers, one on top of the other."""


class Gpt2Settings(Settings):
    """GPT-2 (Radford et al. 2019) of any size, for text; as set, its smallest published form.

    The context is as long as the data set's samples. Weights begin at random.
    """

    kind: Literal["gpt2"] = "gpt2"
    layers: Annotated[int, Ge(1), Le(1000)] = 12
    """Blocks of attention and two linear layers."""
    heads: Annotated[int, Ge(1), Le(1000)] = 12
    """Attention heads of a block; they share its width equally."""
    width: Units = 768
    """Numbers that stand for one token throughout; a multiple of heads."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} is no multiple of heads {self.heads}; make it one"
            )
        return self


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
    | Gpt2Settings,
    Field(discriminator="kind"),
]
