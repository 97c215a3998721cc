"""Networks of the user's own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from fleetsim.contracts import Model, SampleForm
from fleetsim.host.own_code import own_code
from fleetsim.learning.models.own.own_model import OwnModelKind
from fleetsim.learning.models.settings import ModelSettings
from fleetsim.plugins.conformance.watched_calls import WatchedCalls
from fleetsim.plugins.plugin import PluginSettings
from fleetsim.plugins.plugin_kind import PluginKind, kinds_of
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings


class ModelPluginSettings(PluginSettings, OwnModelKind):
    """Settings of a network of the user's own."""

    @property
    def said(self) -> str:
        """Name of the network in messages, as the user gave it."""
        return self.plugin.said

    def make(self, samples: SampleForm) -> object:
        """Return what the user's class or function gives for samples of a form, unchecked.

        Raises:
            ScenarioError: it fails.
        """
        return network_of(self.part(), samples, self.said)


class NetworkMaker:
    """Class or function of the user's own with its settings, which makes networks.

    Attributes:
        call: the class or function.
    """

    def __init__(self, call: Callable[..., object], *given: object) -> None:
        """Wrap a class or function and the settings that it is called with, if any."""
        self.call = call
        self._given = given
        try:
            self._takes_samples = "samples" in inspect.signature(call).parameters
        except ValueError:
            # A built-in function does not say what it takes; the call tells the rest.
            self._takes_samples = False

    def network(self, samples: SampleForm, said: str) -> object:
        """Call it, with `samples` if it has a parameter of that name.

        Raises:
            ScenarioError: it fails; the message begins with `said`.
        """
        named = {"samples": samples} if self._takes_samples else {}
        words = [*(["settings"] if self._given else []), *named]
        call = f"{getattr(self.call, '__name__', 'it')}({', '.join(words)})"
        with own_code(f"{said}: {call}"):
            return self.call(*self._given, **named)


def network_of(part: Any, samples: SampleForm, said: str) -> object:
    """Return what a maker of networks makes for samples of a form, or a network itself.

    Raises:
        ScenarioError: the maker fails; the message begins with `said`.
    """
    if ModelPlugins.claims(type(part)):
        return part
    maker = part if isinstance(part, NetworkMaker) else NetworkMaker(part)
    return maker.network(samples, said)


class ModelPlugins(PluginKind):
    """Kind of the networks, at `task.model`."""

    name: ClassVar[str] = "model"
    noun: ClassVar[str] = "a model"
    key_path: ClassVar[KeyPath | None] = ("task", "model")
    protocol: ClassVar[type] = Model
    marks: ClassVar[frozenset[str]] = frozenset({"forward"})
    bundled = kinds_of(ModelSettings)
    settings_base: ClassVar[type[Settings]] = ModelPluginSettings
    takes_functions: ClassVar[bool] = True

    @classmethod
    def claims(cls, found: object) -> bool:
        """Return whether a class is a `torch.nn.Module`; torch is not imported for it."""
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(found, type) and issubclass(found, torch.nn.Module)

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function can be called with nothing, or with `samples` alone."""
        signature = inspect.signature(function)
        named = {"samples": None} if "samples" in signature.parameters else {}
        try:
            signature.bind(**named)
        except TypeError:
            return False
        return True

    @classmethod
    def of_class(cls, found: type, settings: Settings | None) -> object:
        """Return a maker of networks: what they are made for is known once there are samples."""
        return NetworkMaker(found) if settings is None else NetworkMaker(found, settings)

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> object:
        """Return a maker of the networks that a function returns."""
        return NetworkMaker(function)

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object is neither a maker of networks nor a network."""
        if isinstance(made, NetworkMaker) or callable(made):
            return None  # a network can be called, too
        return (
            "is no model: not a torch.nn.Module, nor a class or function that makes one;"
            f" {cls.page} has an example"
        )

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `fleetsim.plugins.conformance.models`."""
        from fleetsim.plugins.conformance.models import check_model  # noqa: PLC0415

        check_model(make, calls)
