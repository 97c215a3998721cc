"""Discrete-event simulation of edge fleets that train models together.

    run = fleetsim.run("quickstart", {"server.selector.kind": "oort"}, out="runs/quickstart-oort")
    run.time_to_accuracy(0.8), run.energy_to_accuracy(0.8), run.rounds, run.tasks, run.clients

Data flows one way: scenarios/*.yaml -> scenario -> simulate (fleet, engine, selectors, learning,
record) -> runs/<id>/ -> report. See docs/architecture.md.

- `cli`: the command line.
- `scenario`: one YAML file that describes a run, and its checks.
- `interactive`: `run` for scripts and notebooks.
- `run_settings`: settings of one run beside its scenario.
- `simulate`: one run from a scenario to its run folder.
- `flower`: apps of Flower on the virtual clock.
- `user`: parts, data and networks of the user's own.
- `contracts`: types and protocols between packages.
- `fleet`: clients and the world around them: devices, networks, batteries, people.
- `engine`: servers and tasks on the virtual clock.
- `selectors`: policies that choose the cohort.
- `learning`: data, models and training.
- `trackers`: what follows a run elsewhere than in its folder.
- `record`: run folders: tables, checkpoints, measures.
- `report`: figures and HTML pages of runs.
- `calibration`: device files from timed training runs and power logs.
- `selector_training`: training of selectors before they are used.
- `studies`: arms compared over seeds, with statistics.
- `validation`: models compared with measurements and theory.
- `catalogue`: names that scenarios and commands may use.
- `progress`: progress of a run on a terminal.
- `schema`: strict YAML, and faults in it.
- `settings`: base of every settings class.
- `bundled`: files that come with fleetsim, by name.
- `rng`: random streams with addresses.
- `units`: conversions between units.
- `counts`: whole numbers from fractions.
- `read_only`: arrays that nobody may change.
- `rounding`: slack of comparisons that differ by rounding.
- `errors`: exceptions.
- `quoting`: foreign text in messages.
- `host`: files, memory, signals and numerics of the host.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fleetsim.host import numerics, turns
from fleetsim.record import run_views

if TYPE_CHECKING:
    from fleetsim.errors import DataError, FleetsimError, ScenarioError
    from fleetsim.interactive import run
    from fleetsim.record.saved_run import Run, open_run
    from fleetsim.scenario import Scenario, load
    from fleetsim.studies.result import StudyResult, study
    from fleetsim.user.check import check_plugin
    from fleetsim.user.data.own_dataset import dataset

__version__ = "0.1.0"
__all__ = [
    "DataError",
    "FleetsimError",
    "Run",
    "Scenario",
    "ScenarioError",
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
    "check_plugin": "fleetsim.user.check",
    "dataset": "fleetsim.user.data.own_dataset",
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
