"""AutoFL with real training: what it is told of clients and model."""

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run
from tests.selectors.delegate import Delegate

ROUNDS = 6
CHANGES = [
    "server.selector={kind: autofl, exploration: 0.5, unit_j: 0.01}",
    *(f"stop.rounds={ROUNDS}", "checkpoint.every_rounds=1", "evaluate.validation_fraction=0.1"),
    *("fleet.size=10", "server.cohort=3", "task.local.epochs=1", "task.model.hidden=[16, 16]"),
    "task.partition={kind: one-class}",
]


class Watching(Delegate):
    """The scenario's selector, and the fleet and the clocks that went through it."""

    def __init__(self, scenario):
        super().__init__(scenario.build_selector())
        self.clocks: list[float] = []

    def setup(self, fleet):
        self.fleet = fleet
        return self.selector.setup(fleet)

    def select(self, view):
        cohort = self.selector.select(view)
        self.clocks += cohort.clock_fraction.tolist()
        return cohort


@pytest.mark.slow
def test_it_is_told_the_layers_of_the_model_and_the_labels_of_each_client(tmp_path):
    scenario = load("quickstart", CHANGES)
    watching = Watching(scenario)
    run(scenario, out=tmp_path / "run", workers=1, selector=watching)
    learned = watching.learned()

    # Three dense layers; each client has one of ten digits.
    assert watching.fleet.layer_counts == {"gemm": 3}
    assert watching.fleet.label_coverage.tolist() == [0.1] * 10
    assert not watching.fleet.label_coverage.flags.writeable
    assert set(watching.clocks) <= {1.0, 0.8, 0.6, 0.4, 0.2}
    assert len(set(watching.clocks)) > 1
    assert learned["rows"].size > 0
