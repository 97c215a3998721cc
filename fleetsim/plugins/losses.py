"""Losses of the user's own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from fleetsim.contracts import Loss
from fleetsim.learning.local.loss_settings import LossKind, LossSettings
from fleetsim.plugins.conformance.watched_calls import WatchedCalls
from fleetsim.plugins.plugin import PluginSettings
from fleetsim.plugins.plugin_kind import PluginKind, kinds_of
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings


class LossPluginSettings(PluginSettings, LossKind):
    """Settings of a loss of the user's own."""

    def build(self) -> Loss:
        """Return a new loss, each of whose answers is checked.

        Raises:
            ScenarioError: it cannot be made, or has weights that would have to be trained.
        """
        from fleetsim.learning.local.own_loss import CheckedLoss  # noqa: PLC0415

        return CheckedLoss(self.part(), self.plugin.said)


class LossPlugins(PluginKind):
    """Kind of the losses, at `task.local.loss`."""

    name: ClassVar[str] = "loss"
    noun: ClassVar[str] = "a loss"
    key_path: ClassVar[KeyPath | None] = ("task", "local", "loss")
    protocol: ClassVar[type] = Loss
    marks: ClassVar[frozenset[str]] = frozenset({"losses"})
    bundled = kinds_of(LossSettings)
    settings_base: ClassVar[type[Settings]] = LossPluginSettings
    takes_functions: ClassVar[bool] = True

    @classmethod
    def claims(cls, found: object) -> bool:
        """Return whether a class has `losses` and is no network, which may have its own loss."""
        torch = sys.modules.get("torch")
        is_network = (
            torch is not None and isinstance(found, type) and issubclass(found, torch.nn.Module)
        )
        return not is_network and super().claims(found)

    @classmethod
    def claims_function(cls, function: Callable[..., Any]) -> bool:
        """Return whether a function takes outputs and labels, and nothing else that it needs."""
        return _takes(function, 2) and not _takes(function, 1)

    @classmethod
    def of_function(cls, function: Callable[..., Any]) -> object:
        """Return a function `losses(outputs, labels)`, which is a loss itself."""
        return function

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object is no loss: it has no `losses`, and cannot be called itself."""
        if hasattr(made, "losses"):
            return super().fault(made)
        if not callable(made):
            return f"is no loss, it lacks losses; {cls.page} has an example"
        if not _takes(made, 2):
            return f"cannot be called with outputs and labels; {cls.page} has an example"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `fleetsim.plugins.conformance.losses`."""
        from fleetsim.plugins.conformance.losses import check_own_loss  # noqa: PLC0415

        check_own_loss(make, calls)


def _takes(call: Callable[..., Any], num: int) -> bool:
    """Return whether something can be called with a number of arguments by position.

    True of a built-in one that does not say what it takes: its answers are checked later.
    """
    try:
        inspect.signature(call).bind(*[None] * num)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
