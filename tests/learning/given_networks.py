"""Settings of networks that a test gives, as a user would."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from fleetsim.contracts import SampleForm
from fleetsim.user.parts.models import ModelPluginSettings

IMAGES = SampleForm((1, 8, 8), 3)
VECTORS = SampleForm((6,), 3)
TEXTS = SampleForm((5,), 4, 4, is_sequence=True)


class GivenSettings(ModelPluginSettings):
    """Settings of a network that a function makes."""

    factory: ClassVar[Any]

    kind: Literal["given"] = "given"

    @property
    def label(self) -> str:
        return "model mine:Net"

    def build(self, samples: SampleForm) -> Any:
        return type(self).factory(samples)


def given(make: Callable[[SampleForm], Any]) -> GivenSettings:
    """Return settings of the network that a function makes."""

    class Settings(GivenSettings):
        factory = staticmethod(make)

    return Settings()
