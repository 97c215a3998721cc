"""Discrete-event simulation of edge fleets that train models together.

    run = fleetsim.run("quickstart", {"server.selector.kind": "oort"}, out="runs/quickstart-oort")
    run.time_to_accuracy(0.8), run.energy_to_accuracy(0.8), run.rounds, run.tasks, run.clients

Data flows one way: scenarios/*.yaml -> scenario -> simulate (fleet, engine, selectors, learning,
record) -> runs/<id>/ -> report. See docs/architecture.md.

- `cli`: The command line: verbs over scenarios and run folders.
- `scenario`: The scenario.
- `interactive`: Function `run` for scripts and notebooks.
- `run_settings`: Settings of one run beside its scenario, described once for all that start a run.
- `simulate`: One run of a scenario.
- `flower`: Flower apps on the virtual clock: `fleetsim flower run APP_DIR --scenario SCENARIO`.
- `user`: Parts, data and networks of the user's own, which a run uses in the place of fleetsim's.
- `contracts`: Contracts between engine, selectors, learning and recording.
- `fleet`: World of a run: devices, links, people and energy as pure functions of time.
- `engine`: Simulation of client tasks and servers on one virtual clock (SimPy).
- `selectors`: Selectors: policies that choose the cohort, one package per paper.
- `learning`: Learning task of a scenario: data, partition, model, local training and aggregation.
- `trackers`: Trackers: what follows a run elsewhere than in its folder.
- `record`: Run folders: writing a run so that it survives a kill, and reading it back.
- `report`: Figures and HTML pages of runs.
- `calibration`: Calibration of a device: a device file from timed training runs and a power log.
- `selector_training`: Training of selectors before they are used, and what it costs.
- `studies`: Studies: arms compared in conditions over seeds, from one file to a table of verdicts.
- `validation`: Pages that set the models of scenarios beside measurements, theory and counts.
- `catalogue`: Names that scenarios and commands may use, as tables for `fleetsim list`.
- `progress`: Progress of a run.
- `schema`: Strict YAML, overrides, and messages about faults in a file.
- `settings`: Base of every settings class: frozen, unknown keys refused, no NaN or infinity.
- `bundled`: Bundled devices, radios, traces, scenarios, studies and other files, found by name.
- `rng`: Addressed random streams: every draw has an address (seed, purpose, indices).
- `units`: Unit conversions. Values inside fleetsim are SI.
- `counts`: Whole counts.
- `read_only`: Arrays that nobody may change in place.
- `rounding`: Slack of comparisons between quantities that differ by rounding.
- `errors`: Exceptions of fleetsim, by the party that must act.
- `quoting`: Foreign text in messages: on one line, without control characters, of bounded length.
- `host`: The host on which fleetsim runs: files, memory, signals and numerics.
- `kernels`: Kernels: computation of clients' jobs in one process.
- `training`: Training on the host: preparation of a learning task, trainers and their processes.
- `__main__`: Entry point of `python -m fleetsim`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fleetsim.host import numerics, turns
from fleetsim.record import run_views

if TYPE_CHECKING:
    from fleetsim.contracts import Selector
    from fleetsim.errors import DataError, FleetsimError, ScenarioError
    from fleetsim.interactive import run
    from fleetsim.record.saved_run import Run, open_run
    from fleetsim.scenario import Scenario, load
    from fleetsim.studies.result import StudyResult, study
    from fleetsim.user.check import check_plugin
    from fleetsim.user.data.user_dataset import dataset

__version__ = "0.1.0"
__all__ = [
    "DataError",
    "FleetsimError",
    "Run",
    "Scenario",
    "ScenarioError",
    "Selector",
    "StudyResult",
    "__version__",
    "check_plugin",
    "dataset",
    "load",
    "open_run",
    "run",
    "study",
]

# Before NumPy and torch are loaded, which read what it sets.
numerics.settle()

# Runs show themselves in notebooks. Figures stand above the record, and take imports.
run_views.attach(lambda: importlib.import_module("fleetsim.report.pages.run_card"))

# Loaded at first use: `import fleetsim` and the light commands must not wait for torch.
_HOMES = {
    "DataError": "fleetsim.errors",
    "FleetsimError": "fleetsim.errors",
    "Run": "fleetsim.record.saved_run",
    "Scenario": "fleetsim.scenario",
    "ScenarioError": "fleetsim.errors",
    "Selector": "fleetsim.contracts",
    "check_plugin": "fleetsim.user.check",
    "dataset": "fleetsim.user.data.user_dataset",
    "load": "fleetsim.scenario",
    "open_run": "fleetsim.record.saved_run",
    "run": "fleetsim.interactive",
    "StudyResult": "fleetsim.studies.result",
    "study": "fleetsim.studies.result",
}


if not TYPE_CHECKING:  # or type checkers would take any name for one of this module

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module 'fleetsim' has no attribute {name!r}")
        # Imported libraries draw random numbers and set variables of theirs.
        with turns.unmoved():
            return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, which `dir` and `help` show although none may be loaded yet."""
    return sorted(__all__)
