"""Writer of the golden tables."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.golden.test_golden import CASES, FOLDER, TABLES, tables_of

for case in CASES:
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        tables_of(case, run)
        for name in TABLES:
            shutil.copy(run / f"{name}.csv", FOLDER / case / f"{name}.csv")
    print(f"{case}: {', '.join(f'{name}.csv' for name in TABLES)}")
