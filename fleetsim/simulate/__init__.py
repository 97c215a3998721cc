"""One run of a scenario: task, fleet, server and record are built, connected and started.

- `scenario_run`: the run of a scenario into a folder.
- `built_parts`: selector, aggregator and other parts that a scenario asks for.
- `run_manifest`: manifest of a run, and its description for trackers.
- `shortest_tasks`: shortest tasks of a fleet, beside the server's deadline.
- `recorded_run`: the folder of a run, and its end on record.
"""

from fleetsim.simulate.scenario_run import run

__all__ = ["run"]
