"""Golden runs: small scenarios, whose tables lie beside them as text.

    python -m tests.golden        # writes the tables of all cases anew

A change of results then shows in the diff of these files.
"""

from pathlib import Path

import pandas as pd

import fleetsim

FOLDER = Path(__file__).parent
UNTRAINED = frozenset({"batteries", "pause"})
CASES = tuple(sorted(path.parent.name for path in FOLDER.glob("*/scenario.yaml")))
TABLES = ("rounds", "tasks", "clients")


def tables_of(case: str, folder: Path) -> dict[str, pd.DataFrame]:
    """Run a case into a folder and return its tables as they read from text."""
    scenario = fleetsim.load(FOLDER / case / "scenario.yaml")
    run = fleetsim.run(scenario, out=folder, train=case not in UNTRAINED, workers=1)
    for name in TABLES:
        getattr(run, name).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    return {name: read(folder, name) for name in TABLES}


def read(folder: Path, table: str) -> pd.DataFrame:
    """Return a table that lies in a folder as text."""
    return pd.read_csv(folder / f"{table}.csv")
