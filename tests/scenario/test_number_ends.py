"""Runs at both ends of every number of selectors, servers and local training, and at several.

Each ends with finite records, or is refused before its first round in a line.
"""

import functools
import json
import math
from itertools import chain, permutations
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DivergenceError, PluginError, ScenarioError
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.scenario import Scenario, load, scenario_warnings
from fleetsim.scenario.settings import BufferedServerSettings, SynchronousServerSettings
from fleetsim.selectors import SelectorSettings
from fleetsim.simulate import run
from tests.contracts.test_selector_contract import LIGHT
from tests.scenario.number_ends import Number, numbers_in, numbers_of_kinds

SIZE = 8
BASE = f"""\
name: ends
task:
  dataset: {{kind: digits}}
  model: {{kind: logistic}}
  holdout_fraction: 0.2
  local: {{epochs: 2, batch_size: 64, optimizer: {{kind: sgd, learning_rate: 0.1}}}}
fleet:
  size: {SIZE}
  devices: {{pixel-6: 0.5, t2.small: 0.5}}
server: {{cohort: 3}}
evaluate: {{validation_fraction: 0.1}}
stop: {{rounds: 4, time_s: 1.0e9}}
"""
BUFFERED = "server={mode: buffered, concurrency: 3}"
SCENES = [
    (), ("server={mode: buffered, concurrency: 3, buffer_size: 2}",), (BUFFERED,),
    ("server.cohort=8", "server.minimum_reports=7"),
    ("server.aggregator={kind: fedavg, weights: uniform}",), ("task.local.epochs=null",),
    ("task.local.optimizer.momentum=0.5",),
    ("fleet.channel={kind: constant, down_bit_per_s: 1.0e6, up_bit_per_s: 1.0e6}",),
]  # fmt: skip
"""Surroundings; a number is tried in the first in which it has an effect."""
SOON = {kind: LIGHT.get(kind, {}) | {"batch_size": 2} for kind in ("favor", "fedmarl")} | {
    kind: LIGHT[kind] for kind in ("fedgcs", "fedcor")
}
"""Settings with which a selector learns within four rounds, and quickly."""
CAPS = {
    "fedcor.dimensions": 50, "fedcor.fit_steps": 50, "fedcor.warm_up_fit_steps": 50,
    "fedcor.observed_fit_steps": 50, "fedgcs.hidden": 64, "fedgcs.refit_epochs": 3,
    "fedgcs.steps": 20, "fedmarl.steps_per_round": 5,
    "favor.hidden": 1000, "favor.steps_per_round": 5, "quick-init-ucb.slot_rounds": 3,
    "geometric-median.iterations": 50, "epochs": 3, "steps": 30, "buffered.window_s": 100.0,
}  # fmt: skip
"""Numbers of steps or sizes whose cost grows with them: hours, not a few seconds, at their upper
end. It is tried there up to the first step."""

OWN = ("selector", "eligibility", "interruption")
OF_SELECTORS = numbers_of_kinds("server.selector", SelectorSettings)
OF_TRAINING = [
    *numbers_in("server", SynchronousServerSettings, leave=OWN),
    *(
        number._replace(kinds=("buffered",))
        for number in numbers_in("server", BufferedServerSettings, leave=OWN)
        if number.name not in SynchronousServerSettings.model_fields and not number.kinds
    ),
    *numbers_in("task.local", LocalSettings),
]


def ends(numbers: list[Number]) -> list[object]:
    """Return every number at each end; some of them are no slow tests."""
    pairs = [(number, values) for number in numbers for values in number.ends()]
    return [
        pytest.param(
            number,
            values,
            id=f"{number.label}-{'-'.join(map(str, values))}",
            marks=[] if index % 40 == 7 else [pytest.mark.slow, pytest.mark.one_in(8)],
        )
        for index, (number, values) in enumerate(pairs)
    ]


@pytest.fixture(scope="session")
def path(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("ends") / "ends.yaml"
    path.write_text(BASE, encoding="utf-8")
    return path


def acts(path: Path, number: Number, changes: list[str]) -> bool:
    """Return whether a scenario is taken in which the number has an effect."""
    try:
        warnings = scenario_warnings(load(path, changes))
    except ScenarioError:
        return False
    keys = number.key.split(".")
    above = [".".join(keys[:depth]) for depth in range(2, len(keys) + 1)]
    idle = [line for line in warnings if "has no effect" in line]
    return not any(f": {key}{end}" in line for key in above for line in idle for end in ": ")


@functools.cache
def acting(path: Path, number: Number) -> tuple[str, ...]:
    """Return overrides with which the number, at a usual value, is taken and has an effect."""
    soon = SOON.get(number.kinds[0], {}) if number.kinds else {}
    sooner = [f"server.selector.{key}={json.dumps(value)}" for key, value in soon.items()]
    within = (*number.within[:1], *sooner, *number.within[1:])
    scenes = [*SCENES, *map(tuple, map(chain.from_iterable, permutations(SCENES[1:], 2)))]
    orders = ((*scene, *within, *mode) for scene in scenes for mode in number.modes())
    others = ((*within, *scene, *mode) for scene in scenes for mode in number.modes())
    for changes in chain.from_iterable(zip(orders, others, strict=True)):
        if any(acts(path, number, [*changes, number.at(value)]) for value in number.usual):
            return changes
    raise AssertionError(f"{number.label} never has an effect; add a scene to SCENES")


def require_plain(fault: ScenarioError) -> None:
    assert all("\n" not in line and ": " in line for line in fault.faults)


def loaded(path: Path, changes: list[str]) -> Scenario | None:
    """Return the scenario; None if it is refused in plain lines."""
    try:
        scenario = load(path, changes)
    except ScenarioError as fault:
        require_plain(fault)
        return None
    scenario.build_selector()
    return scenario


def check(scenario: Scenario, out: Path, *, may_diverge: bool) -> None:
    """Run a scenario; only training at enormous rates may diverge, which it says."""
    rounds: list[object] = []
    try:
        done = run(scenario, out=out, workers=1, on_progress=rounds.append)
    except ScenarioError as fault:
        require_plain(fault)
        # What fails in a part of fleetsim's own is reported as a plug-in's fault, and is none.
        if rounds or isinstance(fault, PluginError):
            raise
        return
    except DivergenceError:
        if not may_diverge:
            raise
        return

    assert len(done.rounds) > 0
    assert done.rounds["accuracy"].astype(float).between(0.0, 1.0).all()
    for table in (done.rounds, done.tasks, done.clients):
        for name, column in table.select_dtypes("float").items():
            is_loss = "loss" in str(name) or "norm" in str(name)
            assert (may_diverge and is_loss) or not np.isinf(column).any(), name
    trained = done.tasks[done.tasks["purpose"] == "train"]
    assert trained["client"].between(0, SIZE - 1).all()
    if not may_diverge:
        assert np.isfinite(done.rounds["loss"].to_numpy(dtype=float)).all()
        assert not trained.duplicated(["round", "client"]).any()
        assert (trained.groupby("round").size() <= 3).all()


@pytest.mark.parametrize(("number", "values"), ends(OF_SELECTORS) + ends(OF_TRAINING))
def test_a_number_at_an_end_of_its_range(number, values, path, tmp_path):
    around, cap = acting(path, number), CAPS.get(number.label, math.inf)
    is_taken = loaded(path, [*around, number.at(*values)]) is not None
    scenario = loaded(path, [*around, number.at(*(min(value, cap) for value in values))])

    assert (scenario is not None) == is_taken
    if scenario is not None:
        check(scenario, tmp_path / "run", may_diverge=number in OF_TRAINING)


@pytest.mark.parametrize(
    "changes",
    [
        # overflow of FedDyn's gradient
        ("task.local.optimizer.within_task={kind: steps, after_steps: [2], factor: 0.1}",
         "task.local.algorithm={kind: feddyn, alpha: 1.0e12}"),
        # global model of both infinities
        ("trainer.kind=vectorised", "task.local.optimizer={kind: adamw, learning_rate: 0.1}",
         "server.aggregator={kind: fedbuff, server_learning_rate: 1.0e12}"),
    ],
)  # fmt: skip
def test_numbers_that_overflow_are_refused_without_a_warning(changes, path, tmp_path):
    scenario = load(path, ["task.model={kind: svm}", *changes])
    check(scenario, tmp_path / "run", may_diverge=True)


def test_every_cap_is_of_a_number():
    assert CAPS.keys() <= {number.label for number in [*OF_SELECTORS, *OF_TRAINING]}
