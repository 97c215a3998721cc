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
    kind, name = KINDS[identity["kind"]], identity["name"]

    def refuse(_: Settings) -> object:
        raise ScenarioError(f"{name}: is not loaded; give it with --plugin {name}")

    settings = _any_settings(kind.settings_base, identity["word"])
    known = {each: identity[each] for each in _IDENTITY}
    plugin = Plugin(kind=kind, label=f"--plugin {name}", settings=settings, make=refuse, **known)
    if issubclass(settings, PluginSettings):
        settings.plugin = plugin
    return plugin


def _any_settings(base: type[Settings], word: str) -> type[Settings]:
    literal: Any = Literal  # its value is known only at run time
    of_kind: Any = (literal[word], word)
    options = {"extra": "allow"}
    return create_model(
        "StoredSettings", __base__=base, __doc__=base.__doc__, __cls_kwargs__=options, kind=of_kind
    )
