"""Interface of a network of the user's own, which `fleetsim.user` builds, checks and counts."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from fleetsim.contracts import ModelCost, SampleForm
from fleetsim.learning.models.model_kind import ModelKind

if TYPE_CHECKING:
    from torch import nn


class UserModelKind(ModelKind):
    """Settings of a network of the user's own."""

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
