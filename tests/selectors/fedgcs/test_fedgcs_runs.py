"""A real run with FedGCS makes proposals and fits."""

import pytest

from fleetsim import simulate
from fleetsim.scenario import load
from fleetsim.selectors.fedgcs.selector import FedGCSSelector, FedGCSSettings
from tests.selectors.delegate import Delegate

RULES = FedGCSSettings(
    embedding=4,
    hidden=8,
    evaluator=10,
    shuffles=4,
    refit_epochs=3,
    warm_up_rounds=3,
    refit_rounds=2,
    exploration_fraction=0.2,
)


class Watched(Delegate):
    """FedGCS, and the rounds in which it proposed."""

    def __init__(self):
        super().__init__(FedGCSSelector(RULES))
        self.proposed = []

    def select(self, view):
        chosen = self.selector.select(view)
        if self.selector.last_proposals is not None:
            self.proposed.append(view.round)
        return chosen


@pytest.mark.slow
def test_a_run_has_proposals_and_fits(tmp_path):
    changes = ["fleet.size=12", "server.cohort=4", "stop.rounds=9", "task.local.epochs=1"]
    changes += ["task.model.hidden=[8, 8]", "evaluate.validation_fraction=0.1"]
    scenario = load("quickstart", [*changes, "evaluate.every_rounds=3", "trainer.kind=serial"])
    selector = Watched()
    run = simulate.run(scenario, out=tmp_path / "run", selector=selector)

    assert run.manifest.status == "done"
    assert len(selector.proposed) >= 3
    assert min(selector.proposed) == 4
    assert int(selector.state()["num_fits"]) == 4
