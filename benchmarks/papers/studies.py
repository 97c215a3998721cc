"""Repeated experiments of papers: scenario, selectors and figures that the paper reports.

Settings are those of `scenarios/papers`, which name the source of each. Figures are copied from the
tables of the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

RANDOM = "random"
SLOT_ROUNDS = 15
"""Number of rounds of a time slot of the goal-directed paper."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Selector of a comparison."""

    name: str
    changes: tuple[str, ...]
    """Overrides, `KEY=VALUE` each, as for `--set`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a paper that a measure is better with one selector than with another."""

    measure: str
    """Name in `measures.MEASURES`."""
    order: tuple[str, ...]
    """Arms, the best first."""
    best_is: str
    """Direction of the measure: `least` or `most`."""


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Experiment: a scenario with several selectors and seeds."""

    name: str
    label: str
    """Name in a figure."""
    scenario: str
    arms: tuple[Arm, ...]
    measures: tuple[str, ...]
    """Columns of its table, names in `measures.MEASURES`."""
    claims: tuple[Claim, ...]
    papers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Figures of the paper by arm and measure, as printed there."""
    changes: tuple[str, ...] = ()
    """Changes to the scenario, for all arms."""
    short_rounds: int = 20
    """Number of rounds with `--short`, which takes minutes."""
    price_targets: tuple[float, ...] = ()
    """Accuracies whose costs in rounds, seconds and joules are compared."""
    folder: str = ""
    """Folder of its runs, if it shares arms with another study; empty: its own name."""


def _arm(kind: str, **settings: object) -> Arm:
    changes = [f"server.selector.kind={kind}"]
    changes += [f"server.selector.{key}={value}" for key, value in settings.items()]
    return Arm(kind, tuple(changes))


_FEDGRA_ARMS = (_arm(RANDOM), _arm("power-of-choice"), _arm("fedgra"))
_FEDGRA_READINGS = (
    Arm("fedgra, inverse weights", (*_arm("fedgra").changes, "server.selector.weighting=inverse")),
    Arm("fedgra, F in rounds", (*_arm("fedgra").changes, "server.selector.fairness_increment=5")),
)
"""Other readings of the paper: weights as printed in (16); fairness that counts rounds instead of
selections since a client last took part."""
_GPFL_ARMS = (_arm(RANDOM), _arm("power-of-choice"), _arm("fedcor"), _arm("gpfl"))
_FINALS_2SPC = (".600", ".586", ".685", ".778")
"""Final accuracies of `_GPFL_ARMS` with two classes per client, table II."""
_SURVEY_ARMS = (
    _arm(RANDOM),
    *(
        Arm(f"policy {number}", ("server.selector.kind=survey", f"server.selector.policy={number}"))
        for number in (1, 2, 3)
    ),
)
_BEST_SET = Arm("fixed", ("server.selector={kind: fixed, clients: [0, 1, 2, 3, 4]}",))
_BANDIT_ARMS = (
    _BEST_SET,
    _arm("quick-init-ucb"),
    _arm("bp-ucb"),
    _arm(RANDOM, slot_rounds=SLOT_ROUNDS),
)


def _gpfl(partition: str, label: str, finals: tuple[str, str, str, str]) -> Study:
    names = [arm.name for arm in _GPFL_ARMS]
    others = [name for name in names if name != "gpfl"]
    return Study(
        name=f"gpfl-fashion-mnist-{partition}",
        label=f"GPFL, {label}",
        scenario=f"papers/gpfl-fashion-mnist-{partition}",
        arms=_GPFL_ARMS,
        measures=("final", "deviation", "rounds_to_all_seen"),
        claims=(
            *(Claim("final", ("gpfl", other), "most") for other in others),
            *(Claim("deviation", ("gpfl", other), "least") for other in others),
            *(Claim("rounds_to_all_seen", ("gpfl", other), "least") for other in others),
        ),
        papers={
            **{(name, "final"): said for name, said in zip(names, finals, strict=True)},
            ("gpfl", "rounds_to_all_seen"): "about 50",
            (RANDOM, "rounds_to_all_seen"): "about 100",
            ("power-of-choice", "rounds_to_all_seen"): "about 100",
            ("fedcor", "rounds_to_all_seen"): "about 200",
        },
        price_targets=(0.6, 0.65, 0.7, 0.75),
    )


def _gpfl_dropout() -> Study:
    """Return the study of table II with the dropout of FedCor's code, whose setting GPFL uses."""
    names = [arm.name for arm in _GPFL_ARMS]
    return Study(
        name="gpfl-fashion-mnist-2spc-dropout",
        label="GPFL, 2 classes, dropout",
        scenario="papers/gpfl-fashion-mnist-2spc",
        arms=_GPFL_ARMS,
        measures=("final", "deviation"),
        claims=tuple(Claim("final", ("gpfl", other), "most") for other in names if other != "gpfl"),
        papers={(name, "final"): said for name, said in zip(names, _FINALS_2SPC, strict=True)},
        changes=("task.model.dropout=0.5",),
    )


def _fedgra_cnn() -> Study:
    return Study(
        name="fedgra-mnist-cnn",
        label="FedGRA, CNN",
        scenario="papers/fedgra-mnist-cnn",
        arms=_FEDGRA_ARMS,
        measures=("waiting_s", "compute_waiting_s"),
        claims=tuple(
            Claim("waiting_s", ("fedgra", other), "least") for other in (RANDOM, "power-of-choice")
        ),
        papers={
            (RANDOM, "waiting_s"): "6.24 s",
            ("fedgra", "waiting_s"): "4.09 s",
            ("power-of-choice", "waiting_s"): "6.76 s",
        },
        # Waiting depends on the selection alone; 90 % accuracy would take a day of two cores.
        changes=("stop.rounds=15",),
        short_rounds=2,
    )


_GOAL = "goal-directed-mnist"


def _goal_directed() -> Study:
    slots = {
        "fixed": ("6", "7", "11", "19"),
        "quick-init-ucb": ("9.92", "13.55", "26.42", "111.22"),
        "bp-ucb": ("14.09", "23.63", "57.95", "131.81"),
        RANDOM: ("40.24", "391.24", "-", "-"),
    }
    targets = ("75", "78", "82", "85")
    measures = tuple(f"slots_to_{target}" for target in targets)
    return Study(
        name=_GOAL,
        label="goal-directed",
        scenario=f"papers/{_GOAL}",
        arms=_BANDIT_ARMS,
        measures=(*measures, "mean", "final_slot"),
        claims=tuple(
            Claim(measure, pair, "least") for measure in measures for pair in pairwise(slots)
        ),
        papers={
            (arm, measure): said
            for arm, values in slots.items()
            for measure, said in zip(measures, values, strict=True)
        },
        short_rounds=10 * SLOT_ROUNDS,
        price_targets=(0.7, 0.75, 0.78, 0.82),
    )


def _goal_directed_losses() -> Study:
    """Return the study of figure 10: bandits with a share of the uploads lost."""
    thetas = (1.0, 0.75, 0.5)
    kinds = ("quick-init-ucb", "bp-ucb")
    name_of = {
        (kind, theta): kind if theta == 1.0 else f"{kind}, theta {theta:g}"
        for kind in kinds
        for theta in thetas
    }
    arms = []
    for (kind, theta), name in name_of.items():
        changes = _arm(kind).changes
        if theta < 1.0:
            changes += (f"fleet.channel.upload_success=[{{probability: {theta:g}}}]",)
        arms.append(Arm(name, changes))
    return Study(
        name=f"{_GOAL}-theta",
        label="goal-directed, losses",
        scenario=f"papers/{_GOAL}",
        arms=tuple(arms),
        measures=("mean", "final_slot"),
        claims=tuple(
            Claim(measure, (name_of[kind, more], name_of[kind, less]), "most")
            for kind in kinds
            for measure in ("mean", "final_slot")
            for more, less in pairwise(thetas)
        ),
        short_rounds=10 * SLOT_ROUNDS,
        folder=_GOAL,
    )


def _goal_directed_readings() -> Study:
    """Return the study of other readings of the paper.

    - opinions on the clients' own data;
    - groups of the cold start that each train from the initial model, so that later groups do not
      profit from earlier ones;
    - random cohorts for one round each;
    - the hinge loss that sums over the wrong classes, with which models learn faster.
    """
    own, summed = "task.holdout_from=own", "task.model.hinge=weston-watkins"
    quick, beliefs = (_arm(kind).changes for kind in ("quick-init-ucb", "bp-ucb"))
    anew = _arm("quick-init-ucb", cold_start="reset").changes
    return Study(
        name=f"{_GOAL}-readings",
        label="goal-directed, other readings",
        scenario=f"papers/{_GOAL}",
        arms=(
            Arm("quick-init-ucb, own data", (*quick, own)),
            Arm("bp-ucb, own data", (*beliefs, own)),
            Arm("quick-init-ucb, cold start anew", anew),
            Arm("random, every round", _arm(RANDOM, slot_rounds=1).changes),
            *(Arm(f"{arm.name}, sum hinge", (*arm.changes, summed)) for arm in _BANDIT_ARMS),
        ),
        measures=("slots_to_75", "slots_to_78", "slots_to_82", "slots_to_85", "mean", "final_slot"),
        claims=tuple(
            Claim(f"slots_to_{target}", (f"{better}, sum hinge", f"{worse}, sum hinge"), "least")
            for target in ("75", "82")
            for better, worse in pairwise(arm.name for arm in _BANDIT_ARMS)
        ),
        short_rounds=10 * SLOT_ROUNDS,
        folder=_GOAL,
    )


STUDIES = (
    Study(
        name="survey-synthetic",
        label="survey",
        scenario="papers/survey-synthetic",
        arms=_SURVEY_ARMS,
        measures=("mean", "final", "best"),
        # The paper has curves only: one lies above another.
        claims=(
            Claim("mean", ("policy 1", RANDOM), "most"),
            Claim("mean", ("policy 2", RANDOM), "most"),
            Claim("mean", (RANDOM, "policy 3"), "most"),
        ),
        short_rounds=60,
        price_targets=(0.65, 0.7, 0.75),
    ),
    Study(
        name="fedgra-mnist-2nn",
        label="FedGRA, 2NN",
        scenario="papers/fedgra-mnist-2nn",
        arms=(*_FEDGRA_ARMS, *_FEDGRA_READINGS),
        measures=("rounds_to_80_of_10", "final", "waiting_s", "compute_waiting_s"),
        claims=(
            Claim("rounds_to_80_of_10", ("fedgra", RANDOM), "least"),
            Claim("rounds_to_80_of_10", ("fedgra", "power-of-choice"), "least"),
        ),
        papers={
            ("fedgra", "rounds_to_80_of_10"): "19",
            (RANDOM, "rounds_to_80_of_10"): "62",
            ("power-of-choice", "rounds_to_80_of_10"): "57",
            (RANDOM, "waiting_s"): "0.37 s",
            ("fedgra", "waiting_s"): "0.35 s",
            ("power-of-choice", "waiting_s"): "0.27 s",
        },
        price_targets=(0.7, 0.75, 0.8, 0.85),
    ),
    _gpfl("2spc", "2 classes", _FINALS_2SPC),
    _gpfl("1spc", "1 class", (".502", ".480", ".571", ".770")),
    _gpfl("dir", "Dirichlet", (".545", ".583", ".636", ".737")),
    _gpfl_dropout(),
    _goal_directed(),
    _fedgra_cnn(),
    _goal_directed_losses(),
    _goal_directed_readings(),
)
PRICE_TARGETS = tuple(sorted({target for study in STUDIES for target in study.price_targets}))
"""Price targets of all studies, because a run may belong to several studies."""
