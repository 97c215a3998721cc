"""Results of whole runs, compared with tables that lie in the repository.

Write them anew with `python -m tests.golden` where results change on purpose.

Tolerances: virtual times and energies are sums of some thousand terms in float64 and agree to 1e-7
on any processor, differences of them to 1e-9 s or J. What training yields in float32 differs by
rounding from processor to processor: losses agree to 1e-3, and accuracies to two of the 360 test
samples.
"""

import re

import pandas as pd
import pytest

from tests.golden.runs import CASES, FOLDER, TABLES, UNTRAINED, read, tables_of

TRAINED = re.compile(r"loss|norm|opinion|belief|utility|score")
ACCURACY = re.compile(r"accuracy|opinion")


@pytest.mark.parametrize("case", CASES)
def test_tables_are_those_in_the_repository(case, tmp_path):
    found = tables_of(case, tmp_path / "run")

    for name in TABLES:
        golden = read(FOLDER / case, name)
        assert list(found[name].columns) == list(golden.columns)
        for column in golden.columns:
            relative, absolute = 1e-7, 1e-9
            if ACCURACY.search(column):
                relative, absolute = 0.0, 2 / 360
            elif TRAINED.search(column):
                relative, absolute = 1e-3, 1e-6
            pd.testing.assert_series_equal(
                found[name][column],
                golden[column],
                rtol=relative,
                atol=absolute,
                obj=f"{name}.{column}",
            )


def test_the_cases_are_six_and_two_are_not_trained():
    trained = [case for case in CASES if read(FOLDER / case, "rounds")["accuracy"].notna().any()]

    assert len(CASES) == 6
    assert sorted(set(CASES) - set(trained)) == sorted(UNTRAINED)
