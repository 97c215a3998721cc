"""Interfaces of the models that a scenario can name: settings and building of the network.

A new model is a subclass of `NetworkKind` and its name in
`fleetsim.learning.models.settings.ModelSettings`. Scenarios are validated without torch, so `build`
imports the module of the network.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from fleetsim.contracts import ModelCost, SampleForm
from fleetsim.settings import Settings

if TYPE_CHECKING:
    from torch import nn

Hinge = Literal["crammer-singer", "weston-watkins", "one-vs-rest"]
"""Hinge loss of several classes: of the wrong class with the highest score; summed over all wrong
classes; summed over one binary machine per class."""


MAX_PARAMETERS = 1_000_000_000
"""Largest model that is simulated."""


class ModelKind(Settings):
    """Settings of one kind of model, which build its network."""

    kind: str
    min_side: ClassVar[int | None] = None
    """Smallest image side (pixels) that survives the pooling; None: samples of any shape."""
    reads_text: ClassVar[bool] = False
    """True: samples are tokens; False: samples are images or feature vectors."""

    trainers: ClassVar[frozenset[str]] = frozenset({"serial"})
    """Kinds of trainer that can train it."""

    @property
    def is_transformer(self) -> bool:
        """True if it is known without its network to be one, as `ModelCost.is_transformer`."""
        return False

    @abstractmethod
    def build(self, samples: SampleForm) -> nn.Module:
        """Return the network on torch's default device; its weights are drawn later.

        A network that draws its weights differently has a method `initialise` (see
        `fleetsim.learning.models.networks.build_model`).

        Samples suit `min_side` and `reads_text`; labels that the network does not suit are a fault.
        """

    @classmethod
    def fits(cls, samples: SampleForm) -> bool:
        """Return whether the network takes samples of this form."""
        if cls.reads_text or samples.vocabulary_size is not None:
            return cls.reads_text and samples.vocabulary_size is not None
        shape, side = samples.input_shape, cls.min_side
        return side is None or (len(shape) == 3 and min(shape[1:]) >= side)


class UserModelKind(ModelKind):
    """Settings of a network of the user's own, which `fleetsim.user` builds, checks and counts."""

    trainers: ClassVar[frozenset[str]] = frozenset(
        {"serial", "stacked", "channels-last", "vectorised"}
    )
    """Each is tried on the network itself before a run."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the network in messages, as the user gave it."""

    @abstractmethod
    def initial_network(self, samples: SampleForm, *, seed: int) -> nn.Module:
        """Return the network with its initial weights on the CPU, checked."""

    @abstractmethod
    def counted_cost(self, module: nn.Module, samples: SampleForm) -> ModelCost:
        """Return the cost of the network for samples of a form; the module does not change."""

    @classmethod
    def fits(cls, samples: SampleForm) -> bool:
        """Return True: whether it takes samples of this form is tried."""
        return True
