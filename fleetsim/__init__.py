"""fleetsim: discrete-event simulation of edge fleets that train models together.

    scenario = fleetsim.load("quickstart", ["server.selector.kind=oort"])
    run = fleetsim.run(scenario, out="runs/quickstart-oort")
    run.time_to_accuracy(0.8), run.energy_to_accuracy(0.8), run.rounds, run.tasks, run.clients

The picture: scenarios/*.yaml -> scenario -> simulate (fleet, engine, selectors, learning, record)
-> runs/<id>/ -> report. See docs/architecture.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fleetsim.host import numerics

if TYPE_CHECKING:
    from fleetsim.record.saved_run import Run, open_run
    from fleetsim.scenario import Scenario, load
    from fleetsim.simulate import run

__version__ = "0.1.0"
__all__ = ["Run", "Scenario", "__version__", "load", "open_run", "run"]

# Before NumPy and torch are loaded, which read what it sets.
numerics.settle()

# Loaded at first use: `import fleetsim` and the light commands must not wait for torch.
_HOMES = {
    "Run": "fleetsim.record.saved_run",
    "Scenario": "fleetsim.scenario",
    "load": "fleetsim.scenario",
    "open_run": "fleetsim.record.saved_run",
    "run": "fleetsim.simulate",
}


def __getattr__(name: str) -> Any:
    """Public names, imported when they are first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fleetsim' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
