"""Repeated experiments of papers: what their figures and claims are, and how runs are compared.

Scenario, arms, seeds and targets are those of `studies/papers`. Figures are copied from the tables
of the papers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.papers.measures import SLOT_ROUNDS
from fleetsim.studies.study import Study, load_study

RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a paper that a measure is better with one arm than with another."""

    measure: str
    """Name in `measures.MEASURES`."""
    order: tuple[str, ...]
    """Arms, the best first."""
    best_is: str
    """Direction of the measure: `least` or `most`."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """Figures and claims of a paper on the arms of a study."""

    name: str
    """Name of the study in `studies/papers`."""
    label: str
    """Name in a figure."""
    measures: tuple[str, ...]
    """Columns of its table, names in `measures.MEASURES`."""
    claims: tuple[Claim, ...]
    papers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Figures of the paper by arm and measure, as printed there."""
    short_rounds: int = 20
    """Number of rounds with `--short`, which takes minutes."""

    def study(self, seeds: Sequence[int] | None = None, *, is_short: bool = False) -> Study:
        """Load its study, with other seeds or few rounds if asked."""
        rounds = [f'overrides."stop.rounds"={self.short_rounds}'] if is_short else []
        loaded = load_study(f"papers/{self.name}", rounds)
        return loaded if seeds is None else loaded.with_seeds(seeds)


_GPFL_ARMS = (RANDOM, "power-of-choice", "fedcor", "gpfl")
_FINALS_2SPC = (".600", ".586", ".685", ".778")
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


def _over_others(best: str, others: Sequence[str], measure: str, best_is: str) -> list[Claim]:
    return [Claim(measure, (best, other), best_is) for other in others]


def _gpfl(variant: str, label: str, finals: tuple[str, str, str, str]) -> Experiment:
    others = _GPFL_ARMS[:-1]
    return Experiment(
        name=f"gpfl-fashion-mnist-{variant}",
        label=f"GPFL, {label}",
        measures=("final", "deviation", "rounds_to_all_seen"),
        claims=(
            *_over_others("gpfl", others, "final", "most"),
            *_over_others("gpfl", others, "deviation", "least"),
            *_over_others("gpfl", others, "rounds_to_all_seen", "least"),
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
            *_over_others("fedgra", (RANDOM, "power-of-choice"), "rounds_to_80_of_10", "least"),
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
    _gpfl("1spc", "1 class", (".502", ".480", ".571", ".770")),
    _gpfl("dir", "Dirichlet", (".545", ".583", ".636", ".737")),
    Experiment(
        name="gpfl-fashion-mnist-2spc-dropout",
        label="GPFL, 2 classes, dropout",
        measures=("final", "deviation"),
        claims=(*_over_others("gpfl", _GPFL_ARMS[:-1], "final", "most"),),
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
        claims=(*_over_others("fedgra", (RANDOM, "power-of-choice"), "waiting_s", "least"),),
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
)
PRICE_TARGETS = (0.6, 0.65, 0.7, 0.75, 0.78, 0.8, 0.82, 0.85)
"""Targets of all studies, because a run may belong to several studies."""
