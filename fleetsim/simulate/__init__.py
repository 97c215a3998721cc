"""One run of a scenario: task, fleet, server and record are built, connected and started.

- `scenario_run`: The run of a scenario into a folder.
- `built_parts`: Parts of a run that its scenario asks for.
- `run_manifest`: Manifest of a run that begins, and its description for trackers.
- `recorded_run`: The folder of a run, and its end on record: done, interrupted or failed.
"""

from fleetsim.simulate.scenario_run import run

__all__ = ["run"]
