"""Settings of a study file."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints, model_validator

from fleetsim.schema import faults
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.ranges import DurationS, EnergyJ, PositiveFraction
from fleetsim.settings import Settings

_MOST_SEEDS = 10_000
MOST_RUNS = 100_000
"""Number of runs above which a study is refused."""

EQUIVALENCE_MARGIN = 0.05
"""Relative difference below which costs count as equal, unless a study gives another."""
WHOLE_RUN = "the whole run"
"""Label of the target of a study without targets, which every run reaches."""

Name = Annotated[str, StringConstraints(pattern=r"^[^\s,=][^,=\n]{0,59}$")]
"""Name of an arm or a level: 1 to 60 characters without comma and equals sign."""
Overrides = dict[str, Any]
"""Overrides by key path, such as `server.selector.kind: oort`; values are of any shape."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
_OTHER_NAMES: dict[str, Any] = {"additionalProperties": False}
"""Part of a mapping's JSON Schema that refuses names which `Name` does; Pydantic leaves it out."""


class Cell(NamedTuple):
    """Place of a run in its study, in every table with a row per run."""

    condition: str
    """Levels of the varied keys, such as `deadline_s=60`; empty if nothing varies."""
    arm: str
    """Name of the arm."""
    seed: int
    """Seed of the run."""


class RunRow(NamedTuple):
    """Columns of the table of runs after those of `Cell` and of the varied keys."""

    status: str
    """`done`, `failed`, `damaged` or `missing`."""
    folder: str | None = None
    """Run folder of a run that is done or damaged."""
    reason: str | None = None
    """Reason why a run failed or counts as damaged."""
    rounds: float = math.nan
    """Number of rounds."""
    virtual_s: float = math.nan
    """Virtual seconds from the start to the end of the run."""
    energy_j: float = math.nan
    """Joules of the whole fleet."""
    final_accuracy: float = math.nan
    """Accuracy of the last evaluated round, a fraction; NaN if no round was evaluated."""
    platform: str | None = None
    """Numerical platforms on which the run was computed, joined by `+`."""
    version: str | None = None
    """Version of fleetsim that made the run."""


class Target(Settings):
    """Accuracy whose cost is compared."""

    accuracy: PositiveFraction
    """Accuracy on the test set, between 0 and 1."""
    smooth_rounds: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of evaluated rounds over whose mean accuracy counts, as papers plot it."""

    @property
    def label(self) -> str:
        """Name in tables, such as `80 %`."""
        mean = f" (mean of {self.smooth_rounds} rounds)" if self.smooth_rounds > 1 else ""
        return f"{100 * self.accuracy:.6g} %{mean}"


class Budgets(Settings):
    """Budgets of a run, within which accuracies are compared."""

    time_s: DurationS | None = None
    """Virtual seconds."""
    energy_j: EnergyJ | None = None
    """Joules of the whole fleet."""

    @model_validator(mode="after")
    def _names_a_budget(self) -> Budgets:
        if self.time_s is None and self.energy_j is None:
            raise ValueError("names no budget; give time_s, energy_j or both")
        return self


Metric = Literal["rounds", "client updates", "seconds", "joules", "dollars", "grams"]
"""Unit of costs; client updates replace rounds where servers of different modes are compared."""


class PrimaryOutcome(Settings):
    """Outcome on which the question is decided; the page leads with it."""

    target: PositiveFraction | None = None
    """Accuracy, one of the targets; null: the last of them."""
    metric: Metric = "joules"
    """Cost until that target."""


class StudySettings(Settings):
    """Comparison of arms in conditions over seeds; every combination is a run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
    """Letters, digits, dot, dash and underscore; the study's folder is named after it."""
    question: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""
    """Question that the study answers, for its page."""
    scenario: str
    """Scenario of all runs: a path, also from the study's folder, or a bundled name."""
    train: bool = True
    """False: seconds and joules alone, without targets; selectors that need losses are refused."""
    overrides: Overrides = Field(default_factory=dict)
    """Overrides of the scenario for all runs."""
    arms: Annotated[
        dict[Name, Overrides], Field(min_length=1, max_length=1000, json_schema_extra=_OTHER_NAMES)
    ]
    """Arms that are compared, with the overrides of each; `{}` is the scenario as it is."""
    baseline: Name | None = None
    """Arm with which the others are compared; null: the first."""
    vary: dict[
        Name,
        Annotated[list[Any], Field(min_length=1)]
        | Annotated[dict[Name, Overrides], Field(min_length=1, json_schema_extra=_OTHER_NAMES)],
    ] = Field(default_factory=dict, json_schema_extra=_OTHER_NAMES)
    """Conditions: a key path and its values, or a name and its levels with the overrides of each.
    Every combination of levels is a condition."""
    seeds: Annotated[list[Seed], Distinct(), Field(min_length=1, max_length=_MOST_SEEDS)]
    """Seeds; arms meet the same fleet, channels and people with the same seed."""
    targets: list[PositiveFraction | Target] = Field(default_factory=list)
    """Accuracies whose costs are compared, with `smooth_rounds` of the mean of so many evaluated
    rounds; none: the whole runs are."""
    primary: PrimaryOutcome | None = None
    """Outcome chosen before the runs; null: all outcomes of the last target stand side by side."""
    baseline_level: Any = None
    """In a study of one arm, level with which the others are compared: a value of the varied key,
    or the label of a condition; null: the best level of the runs."""
    equivalence_margin: Annotated[float, Field(ge=1e-4, le=1.0)] = EQUIVALENCE_MARGIN
    """Relative difference below which costs count as equal, such as 0.05."""
    budgets: Budgets | None = None
    """Budgets within which accuracies are compared; beyond them a run counts as ended, at their
    cost, without the target."""
    prices: str | None = None
    """File of prices, or a bundled name: adds costs in dollars and grams of CO2e."""
    different_worlds: bool = False
    """True: arms may change the task or the fleet too, and not only the server."""

    @property
    def all_targets(self) -> list[Target]:
        """Targets with all their settings."""
        return [one if isinstance(one, Target) else Target(accuracy=one) for one in self.targets]

    @property
    def baseline_arm(self) -> str:
        """Name of the baseline."""
        return self.baseline if self.baseline is not None else next(iter(self.arms))

    @property
    def is_sweep(self) -> bool:
        """True for one arm whose keys vary: its levels are compared."""
        return len(self.arms) == 1 and bool(self.vary)

    @model_validator(mode="after")
    def _consistent(self) -> StudySettings:
        if self.baseline is not None and self.baseline not in self.arms:
            raise faults.at(("baseline",), f"is no arm; the arms are {', '.join(self.arms)}")
        labels = [target.label for target in self.all_targets]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                raise faults.at(("targets", index), "is there twice; name each target once")
        if self.baseline_level is not None and not self.is_sweep:
            raise faults.at(
                ("baseline_level",), "is for one arm whose keys vary; arms have a `baseline`"
            )
        accuracies = [target.accuracy for target in self.all_targets]
        if self.primary is not None and self.primary.target not in (None, *accuracies):
            raise faults.at(
                ("primary", "target"),
                f"is no target; the targets are {', '.join(map(str, accuracies)) or 'none'}",
            )
        if self.targets and not self.train:
            raise faults.at(
                ("targets",), "without training there is no accuracy; leave out one of the two"
            )
        return self


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a study file, for editors."""
    result = StudySettings.model_json_schema()
    result["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    result["title"] = "fleetsim study"
    return result
