"""Real runs with FedGCS: equal digests after an interruption, and for any number of workers."""

import pytest

from fleetsim import simulate
from fleetsim.errors import PluginError
from fleetsim.scenario import load
from fleetsim.selectors.fedgcs.selector import FedGCSSelector, FedGCSSettings

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
NEVER = 99


class Lost(FedGCSSelector):
    """FedGCS with a bug in one round."""

    def __init__(self, round_):
        super().__init__(RULES)
        self._bad_round = round_
        self.proposed = []
        self.num_fits = 0

    def select(self, view):
        if view.round == self._bad_round:
            raise ValueError("lost my way")
        chosen = super().select(view)
        if self.last_proposals is not None:
            self.proposed.append(view.round)
        return chosen

    def observe(self, outcome):
        super().observe(outcome)
        self.num_fits = self._num_fits


@pytest.fixture(scope="module")
def scenario():
    changes = ["fleet.size=12", "server.cohort=4", "stop.rounds=9", "task.local.epochs=1"]
    changes += ["task.model.hidden=[8, 8]", "evaluate.validation_fraction=0.1"]
    changes += ["evaluate.every_rounds=3", "checkpoint.every_rounds=1", "trainer.kind=serial"]
    return load("quickstart", changes)


@pytest.fixture(scope="module")
def whole(scenario, tmp_path_factory):
    selector = Lost(NEVER)
    run = simulate.run(scenario, out=tmp_path_factory.mktemp("whole") / "run", selector=selector)
    return run, selector


@pytest.mark.slow
def test_a_run_has_proposals_and_fits(whole):
    run, selector = whole

    assert run.manifest.status == "done"
    assert len(selector.proposed) >= 3
    assert min(selector.proposed) == 4
    assert selector.num_fits == 4


@pytest.mark.slow
@pytest.mark.parametrize("bad_round", [3, 8])
def test_a_resumed_run_has_the_digest_of_a_whole_one(bad_round, scenario, whole, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(PluginError, match="lost my way"):
        simulate.run(scenario, out=out, selector=Lost(bad_round))
    resumed = simulate.run(scenario, out=out, resume=True, selector=Lost(NEVER))

    assert resumed.manifest.digest == whole[0].manifest.digest


@pytest.mark.slow
def test_two_workers_make_the_run_of_one(scenario, whole, tmp_path):
    run = simulate.run(scenario, out=tmp_path / "run", workers=2, selector=Lost(NEVER))

    assert run.manifest.digest == whole[0].manifest.digest
