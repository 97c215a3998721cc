"""Own training of clients: algorithms of the user's own."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fleetsim.contracts import ClientTraining, ServerPart
from fleetsim.learning.local.algorithms.settings import AlgorithmKind, AlgorithmSettings
from fleetsim.quoting import quoted
from fleetsim.user.plugin import PluginKind, PluginSettings, kinds_of
from fleetsim.user.watched_calls import WatchedCalls

_NUMBERS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"train_factor": (int, float), "num_copies": (int,)}
)
"""Optional attributes, and their types."""


class ClientTrainingPluginSettings(PluginSettings, AlgorithmKind):
    """Settings of own training of clients."""

    kind: str

    def build(self) -> ClientTraining:
        """Return a new object of the user's class."""
        made: ClientTraining = self.part()
        return made


class ClientTrainingPlugins(PluginKind):
    """Kind of the clients' own training, at `task.local.algorithm`."""

    name = "local"
    noun = "own training of clients"
    key_path = ("task", "local", "algorithm")
    protocol = ClientTraining
    optional_protocol = ServerPart
    optional = frozenset({"wire", "start_server", "broadcast", "server_step"})
    marks = frozenset({"train_client"})
    bundled = kinds_of(AlgorithmSettings)
    settings_base = ClientTrainingPluginSettings
    page = "`fleetsim docs models/own-training`"

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object cannot train clients, with the way out; None if it can."""
        if (message := super().fault(made)) is not None:
            return message
        for name, types in _NUMBERS.items():
            number: Any = getattr(made, name, 0)
            if type(number) not in types or not 0 <= number <= 1e6:
                nouns = "a whole number" if float not in types else "a number"
                return f"{name} must be {nouns} from 0 to 1e6, not {quoted(number)}"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `fleetsim.user.parts.client_rounds`."""
        from fleetsim.user.parts.client_rounds import check_client_training  # noqa: PLC0415

        check_client_training(make, calls, has=cls.has)
