"""Settings of a network of the user's own, without torch.

The user's class or function makes an `nn.Module`; `building` calls it and checks what it gives.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.model_kind import ModelKind

if TYPE_CHECKING:
    from torch import nn


class OwnModelKind(ModelKind):
    """Settings of a network of the user's own; a plug-in derives its settings from it."""

    trainers: ClassVar[frozenset[str]] = frozenset(
        {"serial", "stacked", "channels-last", "vectorised"}
    )
    """Each is tried on the network itself before a run."""

    @property
    @abstractmethod
    def said(self) -> str:
        """Name of the network in messages, as the user gave it."""

    @abstractmethod
    def make(self, samples: SampleForm) -> object:
        """Call the user's class or function and return what it gives, unchecked.

        Raises:
            ScenarioError: it fails.
        """

    def build(self, samples: SampleForm) -> nn.Module:
        """Return the network as the user's code makes it; weights are drawn as it is made.

        Raises:
            ScenarioError: it cannot be made, or is no network.
        """
        import torch  # noqa: PLC0415

        made = self.make(samples)
        if isinstance(made, torch.nn.Module):
            return made
        what = f"the class {made.__name__}" if isinstance(made, type) else type(made).__name__
        raise ScenarioError(f"{self.said}: gives {what}, not an object of torch.nn.Module")

    @classmethod
    def fits(cls, samples: SampleForm) -> bool:
        """Return True: whether it takes samples of this form is tried."""
        return True
