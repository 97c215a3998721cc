"""Which trainer computes a scenario's jobs: by a fixed rule, so the same scenario gets the same.

No torch here, so that a scenario is validated without importing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from fleetsim.errors import ScenarioError
from fleetsim.learning.models.settings import Gpt2Settings, ModelSettings, TwoNNSettings
from fleetsim.learning.training.settings import TrainerKind, TrainerSettings

TRAINS: Mapping[TrainerKind, frozenset[str]] = {
    trainer: frozenset(
        model.model_fields["kind"].default
        for model in get_args(get_args(ModelSettings)[0])
        if trainer in model.trainers
    )
    for trainer in get_args(TrainerKind)
}
"""Models by the trainers that can train them."""

MAX_VECTORISED_WIDTH = 32
"""Width of the widest gpt2 of which many are trained faster at once than one by one on a CPU."""


def choose_trainer(
    wanted: TrainerSettings, model: ModelSettings, *, torch_device: str
) -> TrainerKind:
    """Kind of trainer; `auto` takes the one that was measured to be fastest for such models.

    Raises:
        ScenarioError: the trainer that the scenario names cannot train its model, or not there.
    """
    says = fault(wanted, model)
    if says is not None:
        raise ScenarioError(f"trainer.{says[0]}: {says[1]}")
    if wanted.kind == "auto":
        return _fastest(model, on_cpu=torch_device == "cpu")
    if wanted.kind == "channels-last" and torch_device != "cpu":
        raise ScenarioError(
            "trainer.kind: channels-last trains on the CPU alone; use auto, or --torch-device cpu"
        )
    return wanted.kind


def _fastest(model: ModelSettings, *, on_cpu: bool) -> TrainerKind:
    if _has_dropout(model):
        return "serial"
    if model.kind in TRAINS["stacked"]:
        return "stacked"
    if not on_cpu:
        return "vectorised" if model.kind in TRAINS["vectorised"] else "serial"
    if model.kind in TRAINS["channels-last"]:
        return "channels-last"
    if isinstance(model, Gpt2Settings) and model.width <= MAX_VECTORISED_WIDTH:
        return "vectorised"
    return "serial"


def fault(wanted: TrainerSettings, model: ModelSettings) -> tuple[str, str] | None:
    """Key of `trainer` and what is wrong with it; None if nothing is."""
    if wanted.precision == "mixed" and wanted.kind != "vectorised":
        return "precision", "mixed is for trainer.kind = vectorised; leave it out, or set that"
    if wanted.kind not in ("auto", "serial") and _has_dropout(model):
        return "kind", f"{wanted.kind} trains without dropout; use auto or serial, or leave it out"
    if wanted.kind == "auto" or model.kind in TRAINS[wanted.kind]:
        return None
    those = ", ".join(sorted(TRAINS[wanted.kind]))
    return "kind", f"{wanted.kind} trains {those} alone, not {model.kind}; use auto or serial"


def _has_dropout(model: ModelSettings) -> bool:
    return isinstance(model, TwoNNSettings) and model.dropout > 0.0
