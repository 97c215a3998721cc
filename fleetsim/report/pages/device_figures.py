"""Table of the device and radio figures of which a run drew an error (`fleet.uncertainty`)."""

from fleetsim.record.manifest import Manifest
from fleetsim.report.markup import Table


def table(manifest: Manifest) -> Table:
    """Return a row per figure; no row if the run drew no error."""
    return Table.of(
        {
            "figure": lambda drawn: f"{drawn.name} {drawn.figure}",
            "basis": lambda drawn: "inferred" if drawn.inferred else "measured",
            "in the file": lambda drawn: f"{drawn.sourced:.4g}",
            "factor": lambda drawn: f"{drawn.factor:.3f}",
            "in this run": lambda drawn: f"{drawn.used:.4g}",
        },
        manifest.device_figures,
    )
