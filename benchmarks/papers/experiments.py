"""Repeated experiments of papers: what their figures and claims are, and how runs are compared.

Scenario, arms, seeds and targets are those of `studies/papers`. Figures are copied from the tables
of the papers.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from benchmarks.papers.experiment import RANDOM, Claim, Experiment, over_others
from benchmarks.papers.fedgcs_experiments import FEDGCS
from benchmarks.papers.measures import SLOT_ROUNDS

_GPFL_ARMS = (RANDOM, "power-of-choice", "fedcor", "gpfl")
_FINALS_2SPC = ("0.600", "0.586", "0.685", "0.778")
"""Final accuracies of `_GPFL_ARMS` with two classes per client, table II."""
_GOAL = "goal-directed-mnist"
_SLOTS = ("slots_to_75", "slots_to_78", "slots_to_82", "slots_to_85")
_SLOTS_OF = {
    "fixed": ("6", "7", "11", "19"),
    "quick-init-ucb": ("9.92", "13.55", "26.42", "111.22"),
    "bp-ucb": ("14.09", "23.63", "57.95", "131.81"),
    RANDOM: ("40.24", "391.24", "-", "-"),
}
"""Slots until `_SLOTS`; the paper's arms, the best first."""
_GOAL_SHORT_ROUNDS = 10 * SLOT_ROUNDS


def _gpfl(variant: str, label: str, finals: tuple[str, str, str, str]) -> Experiment:
    others = _GPFL_ARMS[:-1]
    return Experiment(
        name=f"gpfl-fashion-mnist-{variant}",
        label=f"GPFL, {label}",
        measures=("final", "deviation", "rounds_to_all_seen"),
        claims=(
            *over_others("gpfl", others, "final", "most"),
            *over_others("gpfl", others, "deviation", "least"),
            *over_others("gpfl", others, "rounds_to_all_seen", "least"),
        ),
        papers={
            **{(arm, "final"): said for arm, said in zip(_GPFL_ARMS, finals, strict=True)},
            ("gpfl", "rounds_to_all_seen"): "about 50",
            (RANDOM, "rounds_to_all_seen"): "about 100",
            ("power-of-choice", "rounds_to_all_seen"): "about 100",
            ("fedcor", "rounds_to_all_seen"): "about 200",
        },
    )


def _losses() -> Experiment:
    """Return the experiment of figure 10: bandits with a share of the uploads lost."""
    return Experiment(
        name=f"{_GOAL}-theta",
        label="goal-directed, losses",
        measures=("mean", "final_slot"),
        claims=tuple(
            Claim(measure, (more, less), "most")
            for kind in ("quick-init-ucb", "bp-ucb")
            for measure in ("mean", "final_slot")
            for more, less in pairwise((kind, f"{kind} (theta 0.75)", f"{kind} (theta 0.5)"))
        ),
        short_rounds=_GOAL_SHORT_ROUNDS,
    )


EXPERIMENTS = (
    Experiment(
        name="survey-synthetic",
        label="survey",
        measures=("mean", "final", "best"),
        # The paper has curves only: one lies above another.
        claims=(
            Claim("mean", ("policy 1", RANDOM), "most"),
            Claim("mean", ("policy 2", RANDOM), "most"),
            Claim("mean", (RANDOM, "policy 3"), "most"),
        ),
        short_rounds=60,
    ),
    Experiment(
        name="fedgra-mnist-2nn",
        label="FedGRA, 2NN",
        measures=("rounds_to_80_of_10", "final", "waiting_s", "compute_waiting_s"),
        claims=(
            *over_others("fedgra", (RANDOM, "power-of-choice"), "rounds_to_80_of_10", "least"),
        ),
        papers={
            ("fedgra", "rounds_to_80_of_10"): "19",
            (RANDOM, "rounds_to_80_of_10"): "62",
            ("power-of-choice", "rounds_to_80_of_10"): "57",
            (RANDOM, "waiting_s"): "0.37 s",
            ("fedgra", "waiting_s"): "0.35 s",
            ("power-of-choice", "waiting_s"): "0.27 s",
        },
    ),
    _gpfl("2spc", "2 classes", _FINALS_2SPC),
    _gpfl("1spc", "1 class", ("0.502", "0.480", "0.571", "0.770")),
    _gpfl("dir", "Dirichlet", ("0.545", "0.583", "0.636", "0.737")),
    Experiment(
        name="gpfl-fashion-mnist-2spc-dropout",
        label="GPFL, 2 classes, dropout",
        measures=("final", "deviation"),
        claims=(*over_others("gpfl", _GPFL_ARMS[:-1], "final", "most"),),
        papers={(arm, "final"): said for arm, said in zip(_GPFL_ARMS, _FINALS_2SPC, strict=True)},
    ),
    Experiment(
        name=_GOAL,
        label="goal-directed",
        measures=(*_SLOTS, "mean", "final_slot"),
        claims=tuple(
            Claim(measure, pair, "least") for measure in _SLOTS for pair in pairwise(_SLOTS_OF)
        ),
        papers={
            (arm, measure): said
            for arm, values in _SLOTS_OF.items()
            for measure, said in zip(_SLOTS, values, strict=True)
        },
        short_rounds=_GOAL_SHORT_ROUNDS,
    ),
    Experiment(
        name="fedgra-mnist-cnn",
        label="FedGRA, CNN",
        measures=("waiting_s", "compute_waiting_s"),
        claims=(*over_others("fedgra", (RANDOM, "power-of-choice"), "waiting_s", "least"),),
        papers={
            (RANDOM, "waiting_s"): "6.24 s",
            ("fedgra", "waiting_s"): "4.09 s",
            ("power-of-choice", "waiting_s"): "6.76 s",
        },
        short_rounds=2,
    ),
    _losses(),
    Experiment(
        name=f"{_GOAL}-readings",
        label="goal-directed, other readings",
        measures=(*_SLOTS, "mean", "final_slot"),
        claims=tuple(
            Claim(measure, (f"{better} (sum hinge)", f"{worse} (sum hinge)"), "least")
            for measure in ("slots_to_75", "slots_to_82")
            for better, worse in pairwise(_SLOTS_OF)
        ),
        short_rounds=_GOAL_SHORT_ROUNDS,
    ),
    *FEDGCS,
)


@cache
def price_targets(scenario: str) -> tuple[float, ...]:
    """Return the targets of all studies of a scenario, because its runs may belong to several."""
    studies = [experiment.study().settings for experiment in EXPERIMENTS]
    return tuple(
        sorted(
            {
                target.accuracy
                for settings in studies
                if settings.scenario == scenario
                for target in settings.all_targets
            }
        )
    )
