"""Every selector of a paper chooses as its equations say, round after round, in plain Python."""

import pytest
from pydantic import TypeAdapter

from fleetsim.scenario import load
from fleetsim.selectors import SelectorSettings
from fleetsim.selectors.survey.selector import SurveySettings
from fleetsim.simulate import run
from tests.selectors.references.fedcor import FedCor
from tests.selectors.references.gradients import DivFl, FedGra, Gpfl
from tests.selectors.references.losses import Afl, PowerOfChoice, Survey
from tests.selectors.references.networks import Favor
from tests.selectors.references.oort import Oort, PyramidFl
from tests.selectors.references.referee import Refereed
from tests.selectors.references.resources import AutoFl, FedCS, RbcsF
from tests.selectors.references.stage import Stage
from tests.selectors.references.tifl import Tifl

REFERENCES = {
    "survey": Survey, "power-of-choice": PowerOfChoice, "afl": Afl, "tifl": Tifl, "oort": Oort,
    "pyramidfl": PyramidFl, "divfl": DivFl, "favor": Favor, "fedcor": FedCor, "fedgra": FedGra,
    "gpfl": Gpfl, "fedcs": FedCS, "rbcs-f": RbcsF, "autofl": AutoFl,
}  # fmt: skip
TIFL = {"num_tiers": 3, "profile_rounds": 2, "max_s": 25.0, "interval_rounds": 3}
ENDLESS = TIFL | {"credits": "unlimited"}
# A noise of a tenth keeps the fits of so few rounds well conditioned.
FEDCOR = {
    "warm_up_rounds": 4,
    "interval_rounds": 5,
    "history_rounds": 12,
    "noise": 0.1,
    "fit_steps": 3,
    "warm_up_fit_steps": 2,
    "annealing": 0.6,
    "dimensions": 5,
}
FAVOR = {"learning": False, "components": 4, "hidden": 8}
WINDOWS = {"pacer_window_rounds": 4}

CASES = [
    ("survey", {"policy": 1}),
    ("survey", {"policy": 2}),
    ("survey", {"policy": 3}),
    ("survey", {"policy": 1, "loss": "first_epoch"}),
    ("survey", {"policy": 2, "loss": "all_epochs"}),
    ("survey", {"policy": 2, "weights": "printed"}),
    ("survey", {"policy": 3, "weights": "printed"}),
    ("power-of-choice", {}),
    ("power-of-choice", {"d": 3}),
    ("power-of-choice", {"variant": "cpow-d", "d": 9}),
    ("power-of-choice", {"variant": "rpow-d"}),
    ("power-of-choice", {"variant": "rpow-d", "loss": "first_epoch"}),
    ("power-of-choice", {"variant": "rpow-d", "loss": "all_epochs"}),
    ("afl", {}),
    ("afl", {"alpha_2": 0.05, "alpha_3": 0.5}),
    ("afl", {"cold_start": "none"}),
    ("afl", {"alpha_1": 0.25}),
    ("afl", {"alpha_1": 0.25, "rounding": "random"}),
    ("tifl", TIFL),
    ("tifl", ENDLESS),
    ("tifl", ENDLESS | {"trigger": "every"}),
    ("tifl", ENDLESS | {"rule": "rank_to_zero"}),
    ("tifl", ENDLESS | {"rule": "error"}),
    ("oort", {}),
    ("oort", WINDOWS),
    ("oort", WINDOWS | {"pacer_every": "round", "preferred_duration_s": 9.0}),
    ("oort", WINDOWS | {"preferred_duration_s": 9.0, "pacer_step_s": 2.0}),
    ("oort", {"exploration_window": 1.0}),
    ("oort", {"profile": "oort_repo"} | WINDOWS),
    ("oort", {"profile": "fedscale"} | WINDOWS),
    ("oort", {"profile": "plato"}),
    ("oort", {"max_selections": 6}),
    ("pyramidfl", {}),
    ("pyramidfl", {"idle_share": 0.5, "lowest_dropout": 0.2, "highest_dropout": 0.9}),
    ("divfl", {}),
    ("divfl", {"refresh": "ideal"}),
    ("divfl", {"metric": "squared_l2"}),
    ("divfl", {"weights": "gamma"}),
    ("divfl", {"weights": "gamma", "refresh": "ideal"}),
    ("divfl", {"vectors": "update"}),
    ("favor", FAVOR),
    ("favor", FAVOR | {"components": 9, "scaling": "standard"}),
    ("fedcor", FEDCOR),
    ("fedcor", FEDCOR | {"sum_over": "all"}),
    ("fedgra", {}),
    ("fedgra", {"every_rounds": 2, "fairness_bound": 4.0}),
    ("fedgra", {"every_rounds": 1, "weighting": "inverse", "smoothing": 0.4}),
    ("fedgra", {"every_rounds": 2, "fairness_bound": 3.0, "overflow": "printed"}),
    ("fedgra", {"every_rounds": 2, "fairness_bound": 3.0, "reset": "marking"}),
    ("fedgra", {"every_rounds": 3, "mapping": "range", "distinguishing": 0.2}),
    ("gpfl", {}),
    ("gpfl", {"vector": "delta", "exploration": 0.3}),
    ("gpfl", {"vector": "last_gradient"}),
    ("gpfl", {"vector": "delta", "mean": "per_pull"}),
    ("gpfl", {"vector": "delta", "plays": "rounds", "adjustment": "corrected"}),
    ("fedcs", {"round_s": 60.0, "asked_fraction": 0.5}),
    ("fedcs", {"round_s": 15.0, "asked_fraction": 0.5}),
    ("rbcs-f", {"penalty": 0.05}),
    ("rbcs-f", {"guaranteed_fraction": 0.3, "penalty": 1.0}),
    ("rbcs-f", {"penalty": 0.05, "confidence": 5.0, "ridge": 0.5}),
    ("autofl", {}),
    ("autofl", {"exploration": 0.0, "unit_j": 50.0}),
    ("autofl", {"accuracy_weight": 10.0, "gain_weight": 100.0}),
    ("autofl", {"tables": "category"}),
    ("autofl", {"next_state": "same"}),
    ("autofl", {"previous": "best", "cohort_energy": "sum"}),
    ("autofl", {"learning": False}),
]  # fmt: skip
"""Kinds, and settings."""


def name_of(case) -> str:
    kind, changes = case
    return "-".join([kind, *(f"{key}={value}" for key, value in changes.items())])


def refereed(kind, changes) -> Refereed:
    settings = TypeAdapter(SelectorSettings).validate_python({"kind": kind, **changes})
    if "ties" in type(settings).model_fields:
        settings = settings.model_copy(update={"ties": "lowest_id"})
    return Refereed(settings.build(), REFERENCES[kind](settings))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_choice_is_that_of_the_reference(case):
    # Two of the pacer's windows of 20 rounds. Automatic differentiation takes its time.
    rounds = [16, 8] if case[0] == "fedcor" else [45, 20]
    referees = [refereed(*case), refereed(*case)]
    for seed, referee in enumerate(referees):
        Stage(seed, planned=rounds[seed]).play(referee)

    assert [referee.num_choices for referee in referees] == rounds
    assert [referee.mismatches for referee in referees] == [[], []]


def test_a_referee_sees_another_choice():
    settings = SurveySettings(policy=1, ties="lowest_id")
    reference = Survey(settings.model_copy(update={"policy": 2}))
    referee = Refereed(settings.build(), reference)
    Stage(0).play(referee)

    assert referee.mismatches


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_choice_of_a_real_run_is_that_of_the_reference(case, tmp_path):
    # Owners come and go, some clients are late, one in five is cut off.
    scenario = load(
        "quickstart",
        [
            *("fleet.size=12", "server.cohort=4", "server.deadline_s=0.6", "stop.rounds=12"),
            *("task.local.epochs=3", "task.model.hidden=[8, 8]"),
            *("server.selector.kind=random", "evaluate.every_rounds=12"),
            "evaluate.validation_fraction=0.1",
        ],
    )
    referee = refereed(*case)
    finished = run(scenario, out=tmp_path / "run", workers=1, selector=referee)

    assert finished.rounds["num_selected"].sum() > 12
    assert referee.num_choices >= 12
    assert referee.mismatches == []
