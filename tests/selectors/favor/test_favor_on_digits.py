"""Favor in runs that train on digits: charges, and episodes in sequence."""

from typing import Any

import pytest

from fleetsim.scenario import load
from fleetsim.selectors import build_selector
from fleetsim.simulate import run
from tests.selectors.delegate import Delegate

MODEL_BYTE = 4 * (64 * 20 + 20 + 20 * 20 + 20 + 20 * 10 + 10)
"""Of the 64-20-20-10 network."""
SELECTOR = "{kind: favor, components: 6, hidden: 16, batch_size: 4, exploration: 0.5"
CHANGES = (
    *("fleet.size=9", "server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null"),
    *("task.local.epochs=1", "task.model.hidden=[20, 20]", "evaluate.validation_fraction=0.1"),
    *("stop.rounds=6", "checkpoint.every_rounds=1"),
)


def scenario_of(*changes, selector=f"{SELECTOR}}}"):
    return load("quickstart", [*CHANGES, *changes, f"server.selector={selector}"])


def test_first_models_are_charged_once(tmp_path):
    scenario = scenario_of("fleet.usage={}", "stop.rounds=3")
    finished = run(scenario, out=tmp_path / "run", workers=1)
    tasks = finished.tasks
    probes, trained = (tasks[tasks["purpose"] == purpose] for purpose in ("probe", "train"))

    assert sorted(probes["client"]) == list(range(9))
    assert set(probes["round"]) == {1}
    assert set(probes["download_byte"]) == set(probes["upload_byte"]) == {MODEL_BYTE}
    assert (finished.rounds["energy_probe_j"] > 0.0).tolist() == [True, False, False]
    # Those that train in the first round hold the model already.
    assert set(trained[trained["round"] == 1]["download_byte"]) == {0}
    assert len(trained) == 9


class TakesUp(Delegate):
    """Selector that takes up what another run has learned."""

    def __init__(self, selector, learned):
        super().__init__(selector)
        self.learned_before = learned

    def setup(self, fleet):
        requests = self.selector.setup(fleet)
        if self.learned_before is not None:
            self.selector.take_up(self.learned_before)
        return requests


@pytest.mark.slow
def test_episodes_go_on_with_what_was_learned(tmp_path):
    learned: Any = None
    steps = []
    for seed in (1, 2):
        scenario = scenario_of(f"seed={seed}")
        selector = TakesUp(build_selector(scenario.server.selector), learned)
        run(scenario, out=tmp_path / f"run-{seed}", workers=1, selector=selector)
        learned = selector.learned()
        steps.append((int(learned["num_rounds"]), int(learned["num_episodes"])))

    # A batch of 4 is there after two rounds of 3.
    assert steps == [(6, 0), (12, 1)]
    assert int(learned["num_steps"]) == 5 + 6
    assert learned["replay/actions"].size == 36
