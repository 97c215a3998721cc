"""Every selector of a paper chooses as its equations say, round after round, in plain Python."""

import pytest
from pydantic import TypeAdapter

from fleetsim.scenario import load
from fleetsim.selectors import SelectorSettings, build_selector
from fleetsim.selectors.survey.selector import SurveySettings
from fleetsim.simulate import run
from tests.selectors.references.afl import Afl
from tests.selectors.references.autofl import AutoFl
from tests.selectors.references.divfl import DivFl
from tests.selectors.references.favor import Favor
from tests.selectors.references.fedcor import FedCor
from tests.selectors.references.fedcs import FedCS
from tests.selectors.references.fedgra import FedGra
from tests.selectors.references.gpfl import Gpfl
from tests.selectors.references.oort import Oort, PyramidFl
from tests.selectors.references.power_of_choice import PowerOfChoice
from tests.selectors.references.rbcs_f import RbcsF
from tests.selectors.references.referee import Refereed
from tests.selectors.references.stage import Stage
from tests.selectors.references.survey import Survey
from tests.selectors.references.tifl import MAX_S, Tifl

TIFL = {"num_tiers": 3, "profile_rounds": 2, "max_s": MAX_S, "interval_rounds": 3}
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
    ("survey", {"policy": 1}, lambda _: Survey(1)),
    ("survey", {"policy": 2}, lambda _: Survey(2)),
    ("survey", {"policy": 3}, lambda _: Survey(3)),
    ("survey", {"policy": 1, "loss": "first_epoch"}, lambda _: Survey(1, "first_epoch")),
    ("survey", {"policy": 2, "loss": "all_epochs"}, lambda _: Survey(2, "all_epochs")),
    ("survey", {"policy": 2, "weights": "printed"}, lambda _: Survey(2, is_printed=True)),
    ("survey", {"policy": 3, "weights": "printed"}, lambda _: Survey(3, is_printed=True)),
    ("power-of-choice", {}, lambda _: PowerOfChoice("pow-d")),
    ("power-of-choice", {"d": 3}, lambda _: PowerOfChoice("pow-d", 3)),
    ("power-of-choice", {"variant": "cpow-d", "d": 9}, lambda _: PowerOfChoice("cpow-d", 9)),
    ("power-of-choice", {"variant": "rpow-d"}, lambda _: PowerOfChoice("rpow-d")),
    ("power-of-choice", {"variant": "rpow-d", "loss": "first_epoch"},
        lambda _: PowerOfChoice("rpow-d", loss="first_epoch")),
    ("power-of-choice", {"variant": "rpow-d", "loss": "all_epochs"},
        lambda _: PowerOfChoice("rpow-d", loss="all_epochs")),
    ("afl", {}, lambda _: Afl()),
    ("afl", {"alpha_2": 0.05, "alpha_3": 0.5}, lambda _: Afl(sharpness=0.05, uniform=50)),
    ("afl", {"cold_start": "none"}, lambda _: Afl(evaluates=False)),
    ("afl", {"alpha_1": 0.25}, lambda _: Afl(dropped=25)),
    ("afl", {"alpha_1": 0.25, "rounding": "random"}, lambda _: Afl(dropped=25, floors_random=True)),
    ("tifl", TIFL, lambda _: Tifl(endless=False)),
    ("tifl", ENDLESS, lambda _: Tifl()),
    ("tifl", ENDLESS | {"trigger": "every"}, lambda _: Tifl(trigger="every")),
    ("tifl", ENDLESS | {"rule": "rank_to_zero"}, lambda _: Tifl(rule="rank_to_zero")),
    ("tifl", ENDLESS | {"rule": "error"}, lambda _: Tifl(rule="error")),
    ("oort", {}, Oort),
    ("oort", WINDOWS, Oort),
    ("oort", WINDOWS | {"pacer_every": "round", "preferred_duration_s": 9.0}, Oort),
    ("oort", WINDOWS | {"preferred_duration_s": 9.0, "pacer_step_s": 2.0}, Oort),
    ("oort", {"exploration_window": 1.0}, Oort),
    ("oort", {"profile": "oort_repo"} | WINDOWS, Oort),
    ("oort", {"profile": "fedscale"} | WINDOWS, Oort),
    ("oort", {"profile": "plato"}, Oort),
    ("oort", {"max_selections": 6}, Oort),
    ("pyramidfl", {}, PyramidFl),
    ("pyramidfl", {"idle_share": 0.5, "lowest_dropout": 0.2, "highest_dropout": 0.9}, PyramidFl),
    ("divfl", {}, lambda _: DivFl()),
    ("divfl", {"refresh": "ideal"}, lambda _: DivFl(ideal=True)),
    ("divfl", {"metric": "squared_l2"}, lambda _: DivFl(power=2)),
    ("divfl", {"weights": "gamma"}, lambda _: DivFl(weighs=True)),
    ("divfl", {"weights": "gamma", "refresh": "ideal"}, lambda _: DivFl(ideal=True, weighs=True)),
    ("divfl", {"vectors": "update"}, lambda _: DivFl(updates=True)),
    ("favor", FAVOR, Favor),
    ("favor", FAVOR | {"components": 9, "scaling": "standard"}, Favor),
    ("fedcor", FEDCOR, FedCor),
    ("fedcor", FEDCOR | {"sum_over": "all"}, FedCor),
    ("fedgra", {}, FedGra),
    ("fedgra", {"every_rounds": 2, "fairness_bound": 4.0}, FedGra),
    ("fedgra", {"every_rounds": 1, "weighting": "inverse", "smoothing": 0.4}, FedGra),
    ("fedgra", {"every_rounds": 2, "fairness_bound": 3.0, "overflow": "printed"}, FedGra),
    ("fedgra", {"every_rounds": 2, "fairness_bound": 3.0, "reset": "marking"}, FedGra),
    ("fedgra", {"every_rounds": 3, "mapping": "range", "distinguishing": 0.2}, FedGra),
    ("gpfl", {}, Gpfl),
    ("gpfl", {"vector": "delta", "exploration": 0.3}, Gpfl),
    ("gpfl", {"vector": "last_gradient"}, Gpfl),
    ("gpfl", {"vector": "delta", "mean": "per_pull"}, Gpfl),
    ("gpfl", {"vector": "delta", "plays": "rounds", "adjustment": "corrected"}, Gpfl),
    ("fedcs", {"round_s": 60.0, "asked_fraction": 0.5}, lambda _: FedCS(60.0)),
    ("fedcs", {"round_s": 15.0, "asked_fraction": 0.5}, lambda _: FedCS(15.0)),
    ("rbcs-f", {"penalty": 0.05}, lambda _: RbcsF(v=0.05)),
    ("rbcs-f", {"guaranteed_fraction": 0.3, "penalty": 1.0}, lambda _: RbcsF(beta=0.3, v=1.0)),
    ("rbcs-f", {"penalty": 0.05, "confidence": 5.0, "ridge": 0.5},
        lambda _: RbcsF(v=0.05, alpha=5.0, ridge=0.5)),
    ("autofl", {}, lambda _: AutoFl()),
    ("autofl", {"exploration": 0.0, "unit_j": 50.0}, lambda _: AutoFl(epsilon=0.0, unit_j=50.0)),
    ("autofl", {"accuracy_weight": 10.0, "gain_weight": 100.0},
        lambda _: AutoFl(alpha=10.0, beta=100.0)),
    ("autofl", {"tables": "category"}, lambda _: AutoFl(shared=True)),
    ("autofl", {"next_state": "same"}, lambda _: AutoFl(waits=False)),
    ("autofl", {"previous": "best", "cohort_energy": "sum"},
        lambda _: AutoFl(best=True, adds_up=True)),
    ("autofl", {"learning": False}, lambda _: AutoFl(epsilon=0.0, learns=False)),
]  # fmt: skip
"""Kind, settings, and the reference for them."""


def name_of(case) -> str:
    kind, changes, _ = case
    return "-".join([kind, *(f"{key}={value}" for key, value in changes.items())])


def refereed(kind, changes, reference) -> Refereed:
    raw = {"kind": kind, **changes}
    settings = TypeAdapter(SelectorSettings).validate_python(raw)
    if "ties" in type(settings).model_fields:
        settings = settings.model_copy(update={"ties": "lowest_id"})
    return Refereed(build_selector(settings), reference(settings))


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
    referee = Refereed(build_selector(SurveySettings(policy=1, ties="lowest_id")), Survey(2))
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
