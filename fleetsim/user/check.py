"""Check of a plug-in against its Protocol, in a rehearsal without a run."""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fleetsim.host.turns import Environment, turn
from fleetsim.learning.global_generators import GlobalGenerators
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.schema import overrides
from fleetsim.schema.python_data import Overrides, changes_of, document_of
from fleetsim.user.loading import kind_named, kind_of, load_plugin, of_class_or_function, wrapped
from fleetsim.user.plugin import Plugin, PluginKind, name_of
from fleetsim.user.watched_calls import WatchedCalls, refused


@turn(Environment, GlobalGenerators, TorchSettings)
def check_plugin(
    plugin: Any,
    kind: str | None = None,
    *,
    settings: Overrides | Mapping[str, Any] = (),
    on_note: Callable[[str], None] | None = None,
) -> str:
    """Check that a part of your own keeps the contract of its kind.

    Its methods are called as in a run, with made-up data, twice with equal arguments, and once with
    a restart in between. It must be of the right form, draw nothing from global generators, change
    no argument, and give equal answers.

    Args:
        plugin: class, function or object, or `MODULE:NAME`. An object is copied.
        kind: its kind, such as `aggregator`, where its class does not tell.
        settings: keys of its `Settings` as overrides, where these have no defaults.
        on_note: callback with a line of text: the bytes of a network's weights.

    Returns:
        The kind that it conforms to.

    Raises:
        ScenarioError: one line on the first fault.
    """
    chosen = _plugin_of(plugin, kind)
    changes = changes_of(settings, {}, keys=(), call=check_plugin)
    document = overrides.apply(document_of({"kind": chosen.word}, chosen.label), changes)
    made_with = chosen.checked(document)
    calls = WatchedCalls(chosen.label, on_note)
    # Once more: its module may have imported torch.
    with turn(TorchSettings):
        chosen.kind.check(
            lambda: calls.watched("making it", lambda: chosen.build(made_with)), calls
        )
    return chosen.kind.name


def _plugin_of(plugin: Any, word: str | None) -> Plugin:
    """Return a plug-in of any form."""
    if isinstance(plugin, Plugin):
        return plugin
    if isinstance(plugin, str):
        return load_plugin(plugin if word is None or "=" in plugin else f"{word}={plugin}")
    is_function = inspect.isfunction(plugin)
    cls = plugin if isinstance(plugin, type) or is_function else type(plugin)
    name = name_of(cls)
    kind: type[PluginKind] | None = None if word is None else kind_named(word, name)
    if cls is plugin:
        return of_class_or_function(kind, cls, name, name)

    def copied(settings: Any) -> Any:
        try:
            return copy.deepcopy(plugin)
        except Exception as fault:
            message = f"cannot be copied ({type(fault).__name__}: {fault}); give its class"
            raise refused(name, message) from fault

    return wrapped(kind or kind_of(cls, name, name), cls, name, name, copied)
