"""Parts, data and networks of the user's own, which a run uses in the place of fleetsim's.

A plug-in is named on the command line (`--plugin MODULE:NAME`) or given from Python
(`fleetsim.run(..., aggregator=Median)`). docs/plugins.md says how one is written.

Everything that is wrong with it is an error of one line: a `ScenarioError`, a `PluginError` where
its code fails, a `DataError` of its data. A `ModelFaultError` does not say yet whose fault it is.

- `parts`: Kinds of plug-in: settings in the scenario, guards in a run, and rehearsals without one.
- `plugin`: Plug-ins: the interface of their kinds, and one plug-in with its identity and settings.
- `loading`: Kinds of plug-ins, and their loading: import by name, or wrapping of what Python gives.
- `check`: Check of a plug-in against its Protocol, in a rehearsal without a run.
- `watched_calls`: Calls of a plug-in that is checked.
- `data`: Data of the user's own.
- `models`: Networks of the user's own: any `torch.nn.Module`, from a class or function of theirs.

A new kind is a subclass of `PluginKind` in a module of `parts`, whose attributes say what it is,
and its name in `loading.KINDS`. Its `settings_base` stands in the place of fleetsim's own settings,
such as a `PartitionKind`: the methods call the user's object, `self.part()`, and check what comes
back. So nothing below this package knows plug-ins: the engine calls `settings.split(...)` as ever.
Settings of the user are joined with it: `class Joined(TheirSettings, settings_base)`.
Manifest, resume, comparison, studies, schema and messages then know it.
"""

from fleetsim.user.loading import (
    KINDS,
    PluginNames,
    given_plugin,
    kind_named,
    load_plugin,
    load_plugins,
)
from fleetsim.user.plugin import Plugin, PluginKind, PluginSettings

__all__ = [
    "KINDS",
    "Plugin",
    "PluginKind",
    "PluginNames",
    "PluginSettings",
    "given_plugin",
    "kind_named",
    "load_plugin",
    "load_plugins",
]
