"""What a scenario may say about the model, local training and aggregation.

No torch here, so that a scenario is validated without importing it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import Field, model_validator

from fleetsim.effects import BEFORE_LAST_ROUND, TRAINING, by_key
from fleetsim.learning.asynchronous import FedAsyncSettings, FedBuffSettings
from fleetsim.ranges import Epochs, Rounds, Samples, Steps
from fleetsim.settings import Settings

Units = Annotated[int, Gt(0), Le(1_000_000)]
"""Units of a layer."""
StepFactor = Annotated[float, Le(1e12)]
"""What multiplies weights or gradients; bounded, because these are 32-bit floats."""
LearningRate = Annotated[StepFactor, Ge(1e-30)]
"""Step size of an optimizer."""

# --- models -------------------------------------------------------------------------------------


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

# --- local training -----------------------------------------------------------------------------


class NoDecaySettings(Settings):
    """The same learning rate in every round."""

    kind: Literal["none"] = "none"


class StepDecaySettings(Settings):
    """The learning rate is multiplied by a factor after each of some rounds."""

    entries_act_if = by_key(after_rounds=(BEFORE_LAST_ROUND,))

    kind: Literal["steps"] = "steps"
    after_rounds: Annotated[tuple[Rounds, ...], Field(min_length=1)]
    """Rounds after which it is multiplied once more, ascending: the next one is the first with the
    new rate."""
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """What it is multiplied by each time."""

    @model_validator(mode="after")
    def _rounds_ascend(self) -> Self:
        if sorted(set(self.after_rounds)) != list(self.after_rounds):
            raise ValueError(f"after_rounds must be ascending, got {list(self.after_rounds)}")
        return self


class ExponentialDecaySettings(Settings):
    """The learning rate is multiplied by a factor after every so many rounds."""

    kind: Literal["exponential"] = "exponential"
    factor: Annotated[float, Ge(1e-30), Le(1)]
    """What it is multiplied by each time."""
    every_rounds: Rounds = 1
    """Rounds between two multiplications."""


DecaySettings = Annotated[
    NoDecaySettings | StepDecaySettings | ExponentialDecaySettings, Field(discriminator="kind")
]


class SgdSettings(Settings):
    """Stochastic gradient descent; its momentum starts from nothing in every task."""

    acts_if = by_key(
        decay=TRAINING,
        weight_decay=TRAINING,
    )

    kind: Literal["sgd"] = "sgd"
    learning_rate: LearningRate
    """Step size of the local updates, in the first round."""
    decay: DecaySettings = NoDecaySettings()
    """How the step size falls from round to round."""
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Heavy-ball momentum, without dampening; 0 is plain SGD."""
    weight_decay: Annotated[StepFactor, Ge(0)] = 0.0
    """Factor of the L2 penalty's gradient that is added to every gradient."""


OptimizerSettings = SgdSettings


class LocalSettings(Settings):
    """What a client does with the model that it was sent."""

    epochs: Epochs | None = None
    """Passes over the client's own samples in one task; this or `steps`."""
    steps: Steps | None = None
    """Steps of SGD in one task, for every client as many, through its samples as often as that
    takes; this or `epochs`."""
    batch_size: Samples
    """Samples of one step; the last batch of an epoch may be smaller."""
    optimizer: OptimizerSettings
    proximal_mu: Annotated[StepFactor, Ge(0)] = 0.0
    """Weight of FedProx's pull towards the model that was sent; 0 is FedAvg's local objective."""
    partial_fraction: Annotated[float, Ge(0), Le(1)] = 0.0
    """Chance that a client trains only a part in a task, as FedProx's stragglers do: any number of
    epochs (or steps) below the full one, all as likely, at least one."""
    clock_fraction: Annotated[float, Ge(0.001), Le(1)] = 1.0
    """Share of its full clock at which a device trains: slower in proportion, at the square of it
    in power."""

    @model_validator(mode="after")
    def _counts_one_way(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(
                "give either epochs or steps, how much a client trains in one task; null takes one"
                " back"
            )
        if self.partial_fraction and (self.epochs or self.steps or 0) < 2:
            raise ValueError(
                "partial_fraction needs at least 2 epochs or steps; raise them, or leave it out"
            )
        return self


# --- training on the host -----------------------------------------------------------------------


TrainerKind = Literal["serial", "stacked", "channels-last", "vectorised"]


class TrainerSettings(Settings):
    """How the host computes what the clients train; never a matter of virtual time."""

    acts_if = by_key(
        kind=TRAINING,
        precision=TRAINING,
    )

    kind: Literal["auto"] | TrainerKind = "auto"
    """serial: one client after the other, the plain reference; stacked: many clients at once, for
    logistic, svm and 2nn; channels-last: one after the other, for networks on images; vectorised:
    many at once, for all but lstm; auto: the fastest that was measured. They differ by rounding."""
    precision: Literal["float32", "mixed"] = "float32"
    """mixed: bfloat16 for the products of forward and backward passes, float32 for the weights; for
    vectorised training, meant for cuda devices."""


# --- aggregation --------------------------------------------------------------------------------

ClientWeights = Literal["samples", "uniform"]
"""Whether a client counts by its number of samples, or every client the same."""
Decay = Annotated[float, Ge(0), Lt(1)]
"""Share of what was remembered that is kept."""
Positive = LearningRate
Tau = Annotated[StepFactor, Ge(1e-12)]


class FedAvgSettings(Settings):
    """Weighted mean of the delivered models (McMahan et al. 2017)."""

    kind: Literal["fedavg"] = "fedavg"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""


class FedAvgMSettings(Settings):
    """FedAvg with momentum on the server (Hsu, Qi, Brown 2019)."""

    kind: Literal["fedavgm"] = "fedavgm"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Positive = 1.0
    """Step size of the server along its velocity."""
    momentum: Decay = 0.9
    """Share of the velocity that is kept; with 0 and learning rate 1 this is FedAvg."""


class FedAdagradSettings(Settings):
    """Adagrad on the server (Reddi et al. 2021)."""

    kind: Literal["fedadagrad"] = "fedadagrad"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Annotated[Positive, Field(examples=[0.1])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.03 to 10."""
    beta1: Decay = 0.0
    """Share of the mean change m that is kept; 0 is Adagrad without momentum."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""


class FedAdamSettings(Settings):
    """Adam on the server, without bias correction (Reddi et al. 2021)."""

    kind: Literal["fedadam"] = "fedadam"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Annotated[Positive, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    beta2: Decay = 0.99
    """Share of the mean square v that is kept."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""


class FedYogiSettings(Settings):
    """Yogi on the server (Reddi et al. 2021)."""

    kind: Literal["fedyogi"] = "fedyogi"
    weights: ClientWeights = "samples"
    """Whether a client counts by its number of samples, or every client the same."""
    learning_rate: Annotated[Positive, Field(examples=[0.01])]
    """Step size of the server; no value suits all tasks: its authors' best were 0.003 to 1."""
    beta1: Decay = 0.9
    """Share of the mean change m that is kept."""
    beta2: Decay = 0.99
    """One minus this is the share of a square by which v moves towards it."""
    tau: Tau = 1e-3
    """Added to the root of v; the smaller, the more the step adapts to each weight."""


AggregatorSettings = Annotated[
    FedAvgSettings
    | FedAvgMSettings
    | FedAdagradSettings
    | FedAdamSettings
    | FedYogiSettings
    | FedBuffSettings
    | FedAsyncSettings,
    Field(discriminator="kind"),
]
"""Settings of any aggregator, told apart by `kind`."""
