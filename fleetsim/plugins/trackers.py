"""Trackers of the user's own, which change no result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fleetsim.contracts import Tracker
from fleetsim.plugins.conformance.watched_calls import WatchedCalls
from fleetsim.plugins.plugin import Plugin
from fleetsim.plugins.plugin_kind import PluginKind
from fleetsim.schema.python_data import document_of
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings
from fleetsim.trackers.named import NAMED


class TrackerPlugins(PluginKind):
    """Kind of the trackers, which have no place in the scenario."""

    name: ClassVar[str] = "tracker"
    noun: ClassVar[str] = "a tracker"
    key_path: ClassVar[KeyPath | None] = None
    protocol: ClassVar[type] = Tracker
    marks: ClassVar[frozenset[str]] = frozenset({"begin", "end"})
    bundled = NAMED
    settings_base: ClassVar[type[Settings]] = Settings
    page: ClassVar[str] = "docs/trackers.md"
    copies_objects: ClassVar[bool] = False

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `fleetsim.plugins.conformance.trackers`."""
        from fleetsim.plugins.conformance.trackers import check_tracker  # noqa: PLC0415

        check_tracker(make, calls)


def trackers_among(plugins: Sequence[Plugin]) -> list[Tracker]:
    """Return new trackers of the plug-ins that are some, with the defaults of their settings.

    Raises:
        ScenarioError: one cannot be made, or is no tracker.
    """
    return [
        own.build(own.checked(document_of({"kind": own.word}, own.said)))
        for own in plugins
        if own.kind is TrackerPlugins
    ]
