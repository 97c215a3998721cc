"""Settings of all tests: the folder of real data, bundled traces, no time limits of hypothesis.

Real data: `$FLEETSIM_DATA`, then a `shared` folder beside the checkout.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fleetsim import bundled
from fleetsim.fleet.traces.usage.csv_forms import Unknown
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage import loading

# A busy machine takes longer, which is no fault of the tested code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def bundled_traces_are_read_once() -> Iterator[None]:
    """Read each bundled usage trace once: it takes half a second, and most scenarios have one."""
    kept, folder = functools.cache(read_trace), bundled.folder("traces")

    def read(path: Path, *, unknown: Unknown) -> Trace:
        return (kept if path.is_relative_to(folder) else read_trace)(path, unknown=unknown)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "read_trace", read)
        yield


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
