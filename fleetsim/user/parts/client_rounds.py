"""Rehearsal of own training: two rounds of three small clients, twice, and by new objects."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from fleetsim import rng
from fleetsim.contracts import (
    Arrays,
    JobResult,
    Outcome,
    Parameters,
    Purpose,
    Report,
    ServerStart,
    ServerStep,
    Wire,
)
from fleetsim.engine.servers.user_part import are_plain_arrays, form_of
from fleetsim.errors import PluginError
from fleetsim.learning.aggregation.weighted_mean import mean_model
from fleetsim.learning.local.algorithms.client_data import ClientData, run_algorithm
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.sample_losses import losses
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.quoting import type_name
from fleetsim.user.watched_calls import WatchedCalls, same

_NUM_CLIENTS = 3
_NUM_ROUNDS = 2
_NUM_SAMPLES = 10
_NUM_FEATURES = 4
_NUM_LABELS = 3
_LOCAL = LocalSettings(epochs=2, batch_size=4, optimizer=SgdSettings(learning_rate=0.1))


def check_client_training(
    make: Callable[[], Any], calls: WatchedCalls, *, has: Callable[[object, str], bool]
) -> None:
    """Check that own training of one class keeps the contract; arguments as `PluginKind.check`.

    `has` says whether an object has a method of its own.
    """
    one, two = make(), make()
    first, second = _rounds(lambda: one, calls, has), _rounds(lambda: two, calls, has)
    if not same(first, second):
        raise calls.refused(
            "train_client gives two results from equal arguments; it must use neither a clock, nor"
            " other generators than the one that it gets, nor what an earlier object has left"
        )
    if not same(first, _rounds(make, calls, has)):
        raise calls.refused(
            "a new object gives another result; keep nothing between calls but ClientUpdate.state"
            " and the arrays of the server"
        )


def _rounds(
    at_hand: Callable[[], Any], calls: WatchedCalls, has: Callable[[object, str], bool]
) -> list[Any]:
    """Return all that some rounds yield; `at_hand` returns the object of the next call."""
    model = nn.Linear(_NUM_FEATURES, _NUM_LABELS)
    weights = 0.3 * rng.stream(1, "plug-in check/weights").normal(size=flatten(model).size)
    parameters = weights.astype(np.float32)
    start = ServerStart(parameters, np.zeros(parameters.size, dtype=np.bool_), _NUM_CLIENTS)
    has_part = has(at_hand(), "server_step")
    wire, server = Wire(), {}
    if has_part:
        wire = calls.call(at_hand(), "wire", parameters.size)
        if not isinstance(wire, Wire):
            raise calls.refused(f"wire returned {type_name(wire)}, not a Wire")
        server = _arrays("start_server", calls.call(at_hand(), "start_server", start), calls)
    kept: dict[int, Arrays] = {}
    trace: list[Any] = []
    for round_ in range(_NUM_ROUNDS):
        received: Arrays = {}
        if has_part:
            answer = calls.call(at_hand(), "broadcast", server, names=("server",))
            received = _arrays("broadcast", answer, calls)
            _check_bytes("broadcast", received, wire.download_byte, calls)
        reports = []
        for client in range(_NUM_CLIENTS):
            data = _data(client, kept.get(client, {}), received)
            generator = rng.stream(1, "plug-in check/task", client, round_)
            result = _train(at_hand(), calls, model, parameters, data, generator)
            _check_bytes("ClientUpdate.sent", result.sent or {}, wire.upload_byte, calls)
            if result.state is not None:
                kept[client] = result.state
                if form_of(result.state) != form_of(next(iter(kept.values()))):
                    raise calls.refused(
                        f"client {client} keeps {form_of(result.state)}, and client 0"
                        f" {form_of(kept[0])}; names and shapes must be those of all clients"
                    )
            reports.append(_report(client, result, parameters))
            trace.append(result._asdict())
        after = mean_model(parameters, reports, "uniform")
        if has_part:
            step = ServerStep(start, parameters, after, tuple(reports))
            after, server = _step(at_hand(), calls, server, step)
        parameters = after
        trace.append(parameters)
    return trace


def _data(client: int, state: Arrays, received: Arrays) -> ClientData:
    draws = rng.stream(1, "plug-in check/samples", client)
    inputs = draws.normal(size=(_NUM_SAMPLES, _NUM_FEATURES)).astype(np.float32)
    return ClientData(
        client=client,
        inputs=torch.from_numpy(inputs),
        labels=torch.from_numpy(draws.integers(_NUM_LABELS, size=_NUM_SAMPLES)),
        state=state,
        received=received,
        losses=losses,
        settings=_LOCAL,
        epochs=2,
    )


def _train(
    part: Any,
    calls: WatchedCalls,
    model: nn.Module,
    base: Parameters,
    data: ClientData,
    generator: np.random.Generator,
) -> JobResult:
    """Return the result of one client's training, whose arguments must stay as they are."""

    def given() -> dict[str, Any]:
        numbers = {"data.inputs": data.inputs.numpy(), "data.labels": data.labels.numpy()}
        return {**numbers, "data.state": data.state, "data.received": data.received}

    before = copy.deepcopy(given())
    try:
        result: JobResult = calls.watched(
            "train_client", lambda: run_algorithm(part, model, base, data, generator)
        )
    except PluginError as fault:
        message = str(fault).removeprefix(f"{calls.label}: ")
        raise calls.refused(message.removeprefix(f"{type(part).__name__}.")) from fault
    for name, value in given().items():
        if not same(value, before[name]):
            raise calls.refused(f"train_client changes {name}; work on a copy")
    return result


def _step(
    part: Any, calls: WatchedCalls, server: Arrays, step: ServerStep
) -> tuple[Parameters, Arrays]:
    answer = calls.call(part, "server_step", server, step, names=("server", "step"))
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise calls.refused(
            f"server_step returned {type_name(answer)}, not (model, arrays of the server)"
        )
    model, arrays = answer
    if not (isinstance(model, np.ndarray) and model.shape == step.before.shape):
        raise calls.refused(f"server_step returned no model of shape {step.before.shape}")
    return model.astype(np.float32), _arrays("server_step", arrays, calls)


def _report(client: int, result: JobResult, base: Parameters) -> Report:
    num = result.num_samples
    report = Report(client, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 1.0 + client, num)
    return report._replace(loss=result.loss, vector=result.vector, base=base, sent=result.sent)


def _arrays(method: str, answer: Any, calls: WatchedCalls) -> Arrays:
    """Return an answer that must be arrays by name."""
    if are_plain_arrays(answer):
        return answer
    raise calls.refused(f"{method} returned {type_name(answer)}, not a dict of arrays by name")


def _check_bytes(what: str, arrays: Arrays, most_byte: int, calls: WatchedCalls) -> None:
    num_byte = sum(array.nbytes for array in arrays.values())
    if num_byte > most_byte:
        raise calls.refused(
            f"{what} has {num_byte} bytes, and wire says at most {most_byte}; tasks are timed by"
            " what wire says"
        )
