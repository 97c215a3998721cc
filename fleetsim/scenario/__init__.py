"""The scenario: one YAML file that describes a run completely, checked before anything starts.

- `settings`: The settings of a whole scenario, which joins those of its parts, and its hashes.
- `loading`: Loading of a scenario: read, override, check, and resolve to absolute paths.
- `named_files`: Files that a scenario names.
- `contradictions`: Contradictions between the parts of a scenario.
- `samples`: Samples of the clients of a scenario.
- `inert_keys`: Keys of a scenario, and entries of its lists.
- `warning_lines`: Warnings about a scenario that can run but may not be what its user meant.
- `shortest_tasks`: Shortest tasks of a fleet, beside the server's deadline.
- `outline`: Outline of a scenario: task, fleet, network, server and end, one line each.
"""

from fleetsim.scenario.contradictions import never_ends
from fleetsim.scenario.loading import LEAST_BYTE_PER_CLIENT, from_document, load, schema
from fleetsim.scenario.outline import outline, setup_of
from fleetsim.scenario.samples import samples_of
from fleetsim.scenario.settings import (
    WORLD,
    BufferedServerSettings,
    Scenario,
    SynchronousServerSettings,
)
from fleetsim.scenario.warning_lines import reproductions, scenario_warnings, transformer_warning

__all__ = [
    "LEAST_BYTE_PER_CLIENT",
    "WORLD",
    "BufferedServerSettings",
    "Scenario",
    "SynchronousServerSettings",
    "from_document",
    "load",
    "never_ends",
    "outline",
    "reproductions",
    "samples_of",
    "scenario_warnings",
    "schema",
    "setup_of",
    "transformer_warning",
]
