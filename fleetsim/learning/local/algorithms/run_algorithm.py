"""One task of an algorithm of clients, as a job, and checks of what the algorithm returns."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from fleetsim.contracts import ClientTraining, ClientUpdate, JobResult, Parameters
from fleetsim.errors import PluginError
from fleetsim.host.user_code import user_code
from fleetsim.learning.local.algorithms.client_data import ClientData
from fleetsim.learning.models.dropout import dropping_out
from fleetsim.learning.models.flat_vector import flatten, load_flat
from fleetsim.learning.models.frozen_weights import FrozenWeights


def run_algorithm(
    algorithm: ClientTraining,
    model: nn.Module,
    base: Parameters,
    data: ClientData,
    generator: np.random.Generator,
    frozen: FrozenWeights | None = None,
) -> JobResult:
    """Return the result of a client's own training from `base` [P]; the model holds it, too.

    The frozen weights must stay as they are; None: as they are now.
    """
    load_flat(model, base)
    frozen = frozen or FrozenWeights(model)
    model.train()
    name = f"{type(algorithm).__name__}.train_client"
    where = f"{name} of client {data.client}"
    with user_code(where), dropping_out(model, generator):
        update: Any = algorithm.train_client(model, data, generator, data.settings)
    if (changed := frozen.fault(model)) is not None:
        raise PluginError(f"{where} {changed}")
    message = _wrong_with(update)
    if message is not None:
        file = getattr(sys.modules.get(type(algorithm).__module__), "__file__", None)
        place = "" if file is None else f" ({file})"
        raise PluginError(f"{name} must return a ClientUpdate {message}{place}")
    losses, metrics = update.epoch_losses, update.metrics
    return JobResult(
        num_samples=len(data.labels),
        loss=float(update.loss),
        loss_rms=abs(float(update.loss if update.loss_rms is None else update.loss_rms)),
        vector=flatten(model),
        epoch_losses=None if losses is None else tuple(map(float, losses)),
        state=update.state,
        sent=update.sent,
        metrics=None if metrics is None else {key: _plain(metrics[key]) for key in metrics},
    )


def _plain(number: float | np.floating[Any]) -> float:
    return float(number) if isinstance(number, np.floating) else number


def _wrong_with(update: Any) -> str | None:
    """Return what an update must be instead; None if it is right."""
    if not isinstance(update, ClientUpdate):
        return f"(from fleetsim.contracts), got {type(update).__name__}"
    metrics: Any = update.metrics or {}
    losses: Any = update.epoch_losses or ()
    if not isinstance(metrics, Mapping) or not all(isinstance(key, str) for key in metrics):
        return f"whose metrics are numbers by name, got {type(metrics).__name__}"
    if not isinstance(losses, tuple | list):
        return f"whose epoch_losses are a tuple of numbers, got {type(losses).__name__}"
    rms = () if update.loss_rms is None else (update.loss_rms,)
    numbers = [("loss", update.loss), *metrics.items(), *(("loss_rms", loss) for loss in rms)]
    for key, number in [*numbers, *(("epoch_losses", loss) for loss in losses)]:
        if not isinstance(number, int | float | np.floating):
            return f"with a number as {key}, got {type(number).__name__}"
    for field, arrays in (("state", update.state), ("sent", update.sent)):
        message = _wrong_arrays(arrays)
        if message is not None:
            return f"whose {field} is a dict of numpy arrays of numbers by name, got {message}"
    return None


def _wrong_arrays(arrays: Any) -> str | None:
    if arrays is None:
        return None
    if not isinstance(arrays, dict):
        return type(arrays).__name__
    for key, array in arrays.items():
        is_numbers = isinstance(array, np.ndarray) and array.dtype.kind in "fiub"
        if not isinstance(key, str) or not is_numbers:
            return f"{type(array).__name__} as {key!r}"
    return None
