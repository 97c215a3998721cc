from __future__ import annotations

import pytest

from fleetsim import simulate
from fleetsim.record.saved_run import Run
from fleetsim.scenario import Scenario, load
from tests.scenario.small import BASE

SMALL = (
    BASE.replace("{rounds: 2}", "{rounds: 6}")
    + """\
checkpoint: {every_rounds: 1}
trainer: {kind: serial}  # every client is a chunk of its own, of which a second process has some
"""
)


@pytest.fixture
def scenario(tmp_path) -> Scenario:
    """A run of six short rounds, the content of small.yaml."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return load(path)


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> Run:
    """The run of `scenario` that nothing disturbs."""
    home = tmp_path_factory.mktemp("whole")
    (home / "small.yaml").write_text(SMALL)
    return simulate.run(load(home / "small.yaml"), out=home / "run")
