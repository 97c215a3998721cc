"""Trackers by name, such as `tensorboard` or `tensorboard=logs`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from fleetsim.contracts import Tracker
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean


class _Named(NamedTuple):
    module: str
    """Imported when the tracker is made, because its library is an extra."""
    cls: str


NAMED: Mapping[str, _Named] = MappingProxyType(
    {
        "tensorboard": _Named("fleetsim.trackers.tensorboard_events", "TensorBoard"),
        "mlflow": _Named("fleetsim.trackers.mlflow_runs", "MLflow"),
        "wandb": _Named("fleetsim.trackers.wandb_runs", "WeightsAndBiases"),
    }
)
"""Trackers of fleetsim; each name is that of the extra, too."""


def trackers_of(given: Iterable[str | Tracker]) -> list[Tracker]:
    """Return trackers, of which some are given as `NAME` or `NAME=PLACE`.

    Raises:
        ScenarioError: a name is unknown, its library is not installed, or an object is no tracker.
    """
    if isinstance(given, str):
        raise ScenarioError(f"trackers = {quoted(given)}: a list of trackers is wanted")
    return [_made(one) if isinstance(one, str) else _checked(one) for one in given]


def _made(text: str) -> Tracker:
    name, equals, place = text.partition("=")
    if name not in NAMED:
        raise ScenarioError(
            f"tracker {quoted(text)}: is none of {', '.join(NAMED)}{did_you_mean(name, NAMED)}"
        )
    if equals and not place:
        raise ScenarioError(f"tracker {quoted(text)}: names no place; write {name} or {name}=DIR")
    module, cls = NAMED[name]
    try:
        made: type[Tracker] = getattr(importlib.import_module(module), cls)
    except ModuleNotFoundError as missing:
        raise ScenarioError(
            f"tracker {quoted(text)}: needs {missing.name}; pip install 'fleetsim[{name}]'"
        ) from missing
    return made(place) if place else made()  # type: ignore[call-arg]


def _checked(found: Tracker) -> Tracker:
    if isinstance(found, type):
        raise ScenarioError(f"tracker {quoted(found.__name__)}: is a class; give an object of it")
    methods = ("begin", "round", "end")
    missing = [name for name in methods if not callable(getattr(found, name, None))]
    if missing:
        says = f"is no tracker, it lacks {', '.join(missing)}; docs/trackers.md has an example"
        raise ScenarioError(f"tracker {quoted(type(found).__name__)}: {says}")
    return found
