"""Settings of all tests: the folder of real data, and no time limits of hypothesis.

Real data: `$FLEETSIM_DATA`, then a `shared` folder beside the checkout.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine takes longer, which is no fault of the tested code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def _find(kind: str, name: str) -> Path:
    homes = [Path(os.environ["FLEETSIM_DATA"])] if os.environ.get("FLEETSIM_DATA") else []
    homes.append(Path(__file__).resolve().parents[2] / "shared")
    for home in homes:
        for path in (home / kind / name, home / name):
            if path.is_dir():
                return path
    pytest.skip(f"real {kind}/{name} is in none of {', '.join(map(str, homes))}")


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Return the folder of a real data set by name; skips the test where it is missing."""
    return lambda name: _find("data", name)


@pytest.fixture
def real_trace() -> Callable[[str], Path]:
    """Return the folder of a real trace by name; skips the test where it is missing."""
    return lambda name: _find("traces", name)
