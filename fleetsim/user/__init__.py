"""Parts, data and networks of the user's own, which a run uses in the place of fleetsim's.

A plug-in is named on the command line (`--plugin MODULE:NAME`) or given from Python
(`fleetsim.run(..., aggregator=Median)`). docs/plugins.md says how one is written.

Everything that is wrong with it is an error of one line: a `ScenarioError`, a `PluginError` where
its code fails, a `DataError` of its data. A `ModelFaultError` does not say yet whose fault it is.

- `kinds`: All kinds of plug-in, by name, and the kind of a class.
- `parts`: Kinds of plug-in: settings in the scenario, guards in a run, and rehearsals without one.
- `plugin_kind`: Interface of a kind of plug-in.
- `plugin`: One plug-in: its settings, its place in a document, and how it is built.
- `loading`: Loading of plug-ins: import by name, or wrapping of what Python gives.
- `identity`: Identity of a plug-in: its name, the SHA-256 of its file, and its version.
- `extension`: Settings classes with the kinds of plug-ins beside those of fleetsim.
- `check`: Check of a plug-in against its Protocol, in a rehearsal without a run.
- `watched_calls`: Calls of a plug-in that is checked.
- `data`: Data of the user's own.
- `models`: Networks of the user's own: any `torch.nn.Module`, from a class or function of theirs.
- `flop`: FLOP of code of the user's own, from torch's formulas.

A new kind is a subclass of `PluginKind` in a module of `parts` and its name in `kinds.KINDS`:

1. `name` is the keyword of `fleetsim.run` and the word before `=` in `--plugin KIND=MODULE:NAME`.
2. `key_path` is the mapping with a `kind` that it becomes in the scenario, such as `task.model`. A
   kind without one, such as a tracker, watches a run and changes nothing of its results.
3. `protocol` is the Protocol in `fleetsim.contracts` whose docstring is the manual; `optional` has
   what a user may leave out of it; `marks` the methods that no other kind has, by which a class is
   recognised (override `claims` where methods do not tell).
4. `settings_base` is the settings class in the place of fleetsim's own, such as a `PartitionKind`:
   its methods call the user's object, `self.part()`, and check what comes back. So nothing below
   this package knows plug-ins: the engine calls `settings.split(...)` as ever. Settings of the user
   are joined with it: `class Joined(TheirSettings, settings_base)`.
5. `check` rehearses the user's object with made-up data by `WatchedCalls` (see `watched_calls`).
6. `takes_classes`, `takes_functions` and `copies_objects` say what `fleetsim.run(KIND=...)` takes.

Manifest, resume, comparison, studies, schema and messages then know it.
"""

from fleetsim.user.kinds import KINDS, kind_named
from fleetsim.user.loading import PluginNames, given_plugin, load_plugin, load_plugins
from fleetsim.user.plugin import Plugin, PluginSettings
from fleetsim.user.plugin_kind import PluginKind

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
