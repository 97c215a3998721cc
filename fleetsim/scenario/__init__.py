"""The scenario: one YAML file that describes a run completely, checked before anything starts.

- `settings`: settings of a whole scenario, and its hashes.
- `loading`: `load` and `schema`.
- `named_files`: files that a scenario names, and their absolute paths.
- `own_files`: the user's own files in a resolved scenario, and their digests.
- `contradictions`: contradictions between the parts of a scenario.
- `privacy_conflicts`: parts of a scenario that break differential privacy.
- `samples`: samples of the clients, and shortages of them.
- `least_memory`: least memory of a run.
- `inert_keys`: keys and entries that cannot change the run.
- `facts`: facts of a scenario, on which the effect of keys depends.
- `warning_lines`: warnings about a scenario.
- `outline`: a scenario in five lines.
"""

from fleetsim.scenario.contradictions import never_ends
from fleetsim.scenario.least_memory import LEAST_BYTE_PER_CLIENT
from fleetsim.scenario.loading import from_document, load, schema
from fleetsim.scenario.outline import outline
from fleetsim.scenario.samples import samples_of
from fleetsim.scenario.settings import (
    WORLD,
    BufferedServerSettings,
    Scenario,
    SynchronousServerSettings,
)
from fleetsim.scenario.warning_lines import (
    reproductions,
    scenario_warnings,
    transformer_warning,
)

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
    "transformer_warning",
]
