from __future__ import annotations

import pytest

from fleetsim import simulate
from fleetsim.record.saved_run import Run
from fleetsim.scenario import Scenario, load

SMALL = """\
name: small
task:
  dataset: {kind: digits}
  model: {kind: logistic}
  local:
    epochs: 1
    batch_size: 32
    optimizer: {kind: sgd, learning_rate: 0.1}
fleet:
  size: 8
  devices: {pixel-6: 0.5, t2.small: 0.5}
server: {cohort: 3, deadline_s: 60}
stop: {rounds: 6}
checkpoint: {every_rounds: 1}
trainer: {kind: serial}  # every client is a chunk of its own, of which a second process has some
"""


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
