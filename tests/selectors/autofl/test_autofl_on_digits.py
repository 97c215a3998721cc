"""AutoFL with real training: what it is told of clients and model, and the same run every time."""

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run

ROUNDS = 6
CHANGES = [
    "server.selector={kind: autofl, exploration: 0.5, unit_j: 0.01}",
    *(f"stop.rounds={ROUNDS}", "checkpoint.every_rounds=1", "evaluate.validation_fraction=0.1"),
    *("fleet.size=10", "server.cohort=3", "task.local.epochs=1", "task.model.hidden=[16, 16]"),
    "task.partition={kind: one-class}",
]


class Watching:
    """The scenario's selector, and the fleet and the clocks that went through it."""

    def __init__(self, scenario):
        self.selector = scenario.build_selector()
        self.needs_losses, self.needs_probes = True, True
        self.clocks: list[float] = []

    def __getattr__(self, name):
        return getattr(self.selector, name)

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


@pytest.mark.slow
def test_two_workers_and_a_resumed_run_have_the_bytes_of_one_straight_run(tmp_path):
    def stop(progress):
        if progress.round == 3:
            raise KeyboardInterrupt

    scenario = load("quickstart", CHANGES)
    straight = run(scenario, out=tmp_path / "straight", workers=1)
    parallel = run(scenario, out=tmp_path / "parallel", workers=2)
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=tmp_path / "resumed", workers=1, on_progress=stop)
    resumed = run(scenario, out=tmp_path / "resumed", workers=1, resume=True)

    assert len(straight.rounds) == ROUNDS
    assert parallel.manifest.digest == straight.manifest.digest
    assert resumed.manifest.digest == straight.manifest.digest
