"""Trackers by name, such as `tensorboard` or `tensorboard=logs`."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from fleetsim.contracts import Tracker
from fleetsim.errors import ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

NAMED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "tensorboard": ("fleetsim.trackers.tensorboard_events", "TensorBoard"),
        "mlflow": ("fleetsim.trackers.mlflow_runs", "MLflow"),
        "wandb": ("fleetsim.trackers.wandb_runs", "WeightsAndBiases"),
    }
)
"""Module and class of the trackers of fleetsim; each name is that of the extra, too.

The constructor imports the library."""


def names_and_objects(
    given: Iterable[str | Tracker | type[Tracker]],
) -> tuple[list[str], list[object]]:
    """Return the names and the objects or classes among trackers of both forms."""
    if isinstance(given, str):
        raise ScenarioError(f"trackers = {quoted(given)}: a list of trackers is wanted")
    both: list[str | object] = list(given)
    names = [one for one in both if isinstance(one, str)]
    return names, [one for one in both if not isinstance(one, str)]


def trackers_named(names: Iterable[str]) -> list[Tracker]:
    """Return the trackers of `NAME` or `NAME=PLACE`."""
    return [_made(name) for name in names]


def _made(text: str) -> Tracker:
    name, equals, place = text.partition("=")
    if name not in NAMED:
        raise ScenarioError(
            f"tracker {quoted(text)}: is none of {', '.join(NAMED)}{did_you_mean(name, NAMED)}"
        )
    if equals and not place:
        raise ScenarioError(f"tracker {quoted(text)}: names no place; write {name} or {name}=DIR")
    module, cls = NAMED[name]
    tracker: Callable[..., Tracker] = getattr(importlib.import_module(module), cls)
    if place.startswith("~"):  # any other may be an address
        place = str(paths.local(place, ScenarioError))
    try:
        return tracker(place) if place else tracker()
    except ModuleNotFoundError as missing:
        raise ScenarioError(
            f"tracker {quoted(text)}: needs {missing.name}; pip install 'fleetsim[{name}]'"
        ) from missing
