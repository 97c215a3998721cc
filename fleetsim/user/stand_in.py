"""Stand-ins of plug-ins that are not loaded: their identity and settings as a study stored them.

A scenario with a stand-in has the data and hashes of one with the plug-in, but cannot run.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import create_model

from fleetsim.errors import ScenarioError
from fleetsim.settings import Settings
from fleetsim.user.kinds import KINDS
from fleetsim.user.plugin import Plugin, PluginSettings

_IDENTITY = ("name", "word", "replaces_any", "source_sha256", "version")


def stored(plugin: Plugin) -> dict[str, Any]:
    """Return the identity of a plug-in as plain data, for `stand_in`."""
    return {"kind": plugin.kind.name, **{name: getattr(plugin, name) for name in _IDENTITY}}


def stand_in(identity: Mapping[str, Any]) -> Plugin:
    """Return the stand-in of a plug-in, whose settings may have any keys."""
    kind = KINDS[identity["kind"]]
    literal: Any = Literal  # its value is known only at run time
    of_kind: Any = (literal[identity["word"]], identity["word"])
    settings = create_model(
        "StoredSettings",
        __base__=kind.settings_base,
        __doc__=f"Settings of the {kind.name} as they were stored.",
        __cls_kwargs__={"extra": "allow"},
        kind=of_kind,
    )

    def refuse(_: Settings) -> object:
        raise ScenarioError(f"{identity['name']}: is not loaded; give it with --plugin")

    plugin = Plugin(
        **{name: identity[name] for name in _IDENTITY},
        kind=kind,
        label=f"--plugin {identity['name']}",
        settings=settings,
        make=refuse,
    )
    if issubclass(settings, PluginSettings):
        settings.plugin = plugin
    return plugin
