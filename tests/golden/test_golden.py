"""Results of whole runs, compared with tables that lie in the repository.

Write them anew with `python -m tests.golden` where results change on purpose.

Tolerances: virtual times and energies are sums of some thousand terms in float64 and agree to 1e-7
on any processor, differences of them to 1e-9 s or J. What training yields in float32 differs by
rounding from processor to processor: losses agree to 1e-3, and accuracies to two of the 360 test
samples.
"""

import re
from pathlib import Path

import pandas as pd
import pytest

import fleetsim

FOLDER = Path(__file__).parent
UNTRAINED = frozenset({"batteries", "pause"})
CASES = tuple(sorted(path.parent.name for path in FOLDER.glob("*/scenario.yaml")))
TABLES = ("rounds", "tasks", "clients")
TRAINED = re.compile(r"loss|norm|opinion|belief|utility|score")
ACCURACY = re.compile(r"accuracy|opinion")


def tables_of(case: str, folder: Path) -> dict[str, pd.DataFrame]:
    """Run a case into a folder and return its tables as they read from text."""
    scenario = fleetsim.load(FOLDER / case / "scenario.yaml")
    run = fleetsim.run(scenario, out=folder, train=case not in UNTRAINED, workers=1)
    for name in TABLES:
        getattr(run, name).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
    return {name: read(folder, name) for name in TABLES}


def read(folder: Path, table: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{table}.csv")


@pytest.mark.parametrize("case", CASES)
def test_tables_are_those_in_the_repository(case, tmp_path):
    tables = tables_of(case, tmp_path / "run")

    for name in TABLES:
        golden = read(FOLDER / case, name)
        assert list(tables[name].columns) == list(golden.columns)
        for column in golden.columns:
            relative, absolute = 1e-7, 1e-9
            if ACCURACY.search(column):
                relative, absolute = 0.0, 2 / 360
            elif TRAINED.search(column):
                relative, absolute = 1e-3, 1e-6
            pd.testing.assert_series_equal(
                tables[name][column], golden[column], rtol=relative, atol=absolute
            )
