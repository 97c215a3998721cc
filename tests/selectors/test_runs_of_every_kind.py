"""Runs with real training: an interruption or a second worker changes no byte, whatever selects."""

import json

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run
from tests.interrupts import interrupted
from tests.selector_modes import UNION, modes_of

CHANGES = (
    *("fleet.size=9", "server.cohort=3", "stop.rounds=6", "checkpoint.every_rounds=1"),
    *("task.local.epochs=1", "task.model.hidden=[20, 20]", "task.holdout_fraction=0.25"),
    *("evaluate.validation_fraction=0.1", "evaluate.every_rounds=2"),
)
FAVOR = "{kind: favor, components: 6, hidden: 16, batch_size: 4, exploration: 0.5"
LEARNERS = [
    f"{FAVOR}}}",
    "{kind: fedmarl, batch_size: 2, exploration: 0.5, exploration_decay_rounds: 4}",
    "{kind: autofl, exploration: 0.5, unit_j: 0.01}",
    "{kind: fedgcs, embedding: 4, hidden: 8, evaluator: 10, shuffles: 4, refit_epochs: 3,"
    " warm_up_rounds: 2, refit_rounds: 2, exploration_fraction: 0.2}",
]
SELECTORS = [
    *LEARNERS,
    f"{FAVOR}, learning: false}}",
    f"{FAVOR}, action: client}}",
    "{kind: divfl}",
    "{kind: divfl, vectors: update}",
    "{kind: divfl, weights: gamma}",
    "{kind: survey, loss: first_epoch, weights: printed}",
    "{kind: survey, policy: 2}",
    "{kind: survey, policy: 3}",
    "{kind: power-of-choice, variant: rpow-d, loss: all_epochs}",
    "{kind: fedcor, warm_up_rounds: 2, interval_rounds: 2}",
    "{kind: ucb, slot_rounds: 2}",
    "{kind: ucb, slot_rounds: 2, model: reset}",
    "{kind: quick-init-ucb, slot_rounds: 1}",
    "{kind: quick-init-ucb, slot_rounds: 2, cold_start: reset}",
    "{kind: bp-ucb, slot_rounds: 2}",
    "{kind: bp-ucb, slot_rounds: 2, model: reset, graph: {kind: radius, radius_m: 200.0}}",
    "{kind: fedgra, every_rounds: 4}",
    "{kind: tifl, num_tiers: 2, profile_rounds: 2, interval_rounds: 2}",
    "{kind: fedcs, asked_fraction: 0.5}",
    "{kind: autofl, exploration: 0.5, tables: category}",
    "{kind: oort, profile: fedscale, pacer_window_rounds: 1}",
    "{kind: random, from_sets: [[0, 1, 2, 3], [4, 5, 6, 7, 8]]}",
]
DEFAULTS = [
    json.dumps(mode.values[0].model_dump(mode="json"))
    for mode in modes_of(UNION)
    if "-" not in mode.id.removeprefix(mode.values[0].kind)
    and not any(f"kind: {mode.values[0].kind}" in text for text in SELECTORS)
]
"""Kinds without a row above."""


def bytes_of(done):
    names = ("rounds", "tasks", "clients")
    tables = [(done.folder / f"{name}.parquet").read_bytes() for name in names]
    return done.manifest.digest, tables


@pytest.mark.slow
@pytest.mark.parametrize("selector", SELECTORS + DEFAULTS)
def test_a_resumed_run_has_the_same_bytes(selector, tmp_path):
    scenario = load("quickstart", [*CHANGES, f"server.selector={selector}"])
    straight = run(scenario, out=tmp_path / "straight", workers=1)
    interrupted(run, scenario, out=tmp_path / "resumed", workers=1, after=3)
    resumed = run(scenario, out=tmp_path / "resumed", workers=1, resume=True)

    assert len(straight.rounds) == 6
    assert bytes_of(resumed) == bytes_of(straight)


@pytest.mark.slow
@pytest.mark.parametrize("selector", LEARNERS)
def test_two_workers_make_the_run_of_one(selector, tmp_path):
    scenario = load("quickstart", [*CHANGES, f"server.selector={selector}"])
    one, two = (run(scenario, out=tmp_path / f"{n}", workers=n) for n in (1, 2))

    assert bytes_of(one) == bytes_of(two)
