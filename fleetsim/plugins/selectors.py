"""Selectors of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from fleetsim.contracts import Selector
from fleetsim.plugins.conformance.watched_calls import WatchedCalls
from fleetsim.plugins.plugin_kind import PluginKind
from fleetsim.quoting import quoted
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings


class SelectorPlugins(PluginKind):
    """Kind of the selectors, at `server.selector`."""

    name: ClassVar[str] = "selector"
    noun: ClassVar[str] = "a selector"
    key_path: ClassVar[KeyPath | None] = ("server", "selector")
    protocol: ClassVar[type] = Selector
    marks: ClassVar[frozenset[str]] = frozenset({"setup", "probe", "select", "observe"})
    bundled = KINDS
    settings_base: ClassVar[type[Settings]] = Settings
    page: ClassVar[str] = "docs/selectors.md"
    takes_classes: ClassVar[bool] = False
    copies_objects: ClassVar[bool] = False

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return also that a need is not declared."""
        says = super().fault(made)
        if says is not None:
            return says
        for need in ("needs_losses", "needs_probes"):
            answer = getattr(made, need, None)
            if not isinstance(answer, bool):
                says = f"{need} must be True or False, not {quoted(answer)}"
                return f"{says}; {cls.page} has an example"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `fleetsim.plugins.conformance.selectors`."""
        from fleetsim.plugins.conformance.selectors import check_selector  # noqa: PLC0415

        check_selector(make, calls)
