import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetsim.scenario import Scenario, load
from fleetsim.simulate import run
from tests.scenario.small import BASE


@pytest.fixture
def base(tmp_path) -> Path:
    """The small scenario in a file."""
    path: Path = tmp_path / "base.yaml"
    path.write_text(BASE, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def changed(tmp_path_factory) -> Callable[[tuple[str, ...]], Scenario]:
    """Load the small scenario with changes; each combination once."""
    path = tmp_path_factory.mktemp("changed") / "base.yaml"
    path.write_text(BASE, encoding="utf-8")
    return functools.cache(lambda changes: load(path, changes))


@pytest.fixture(scope="session")
def digest(changed, tmp_path_factory) -> Callable[[tuple[str, ...], bool], str]:
    """Run the small scenario with changes and return the digest; each combination once."""

    @functools.cache
    def digest(changes, trains):
        out = tmp_path_factory.mktemp("run") / "run"
        return run(changed(changes), out=out, train=trains, workers=1).manifest.digest

    return digest
