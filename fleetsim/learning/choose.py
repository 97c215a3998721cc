"""Which trainer computes a scenario's jobs: by a fixed rule, so the same scenario gets the same.

No torch here, so that a scenario is validated without importing it.
"""

from __future__ import annotations

from typing import Literal

from fleetsim.errors import ScenarioError
from fleetsim.learning.settings import ModelSettings, TrainerSettings

STACKABLE = frozenset({"logistic", "2nn"})
"""Models that can be stacked; it was measured to be no slower even for one client at a time."""


def choose_trainer(wanted: TrainerSettings, model: ModelSettings) -> Literal["serial", "stacked"]:
    """Kind of trainer; `auto` takes the one that was measured to be fastest for such models.

    Raises:
        ScenarioError: the trainer that the scenario names cannot train its model.
    """
    says = fault(wanted, model)
    if says is not None:
        raise ScenarioError(f"trainer.kind: {says}")
    if wanted.kind == "auto":
        return "stacked" if model.kind in STACKABLE else "serial"
    return wanted.kind


def fault(wanted: TrainerSettings, model: ModelSettings) -> str | None:
    """What is wrong with `trainer.kind`; None if nothing is."""
    if wanted.kind == "stacked" and model.kind not in STACKABLE:
        stackable = " and ".join(sorted(STACKABLE))
        return f"stacked trains {stackable} alone, not {model.kind}; use auto or serial"
    return None
