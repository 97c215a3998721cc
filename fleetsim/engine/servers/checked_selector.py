"""Selector as the server calls it: its answers are checked, and their faults have one form."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from fleetsim.contracts import (
    Cohort,
    FleetView,
    IntArray,
    Parameters,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    Selector,
    State,
    Work,
    WorkKind,
)
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.training_requests import array_of, text_of
from fleetsim.engine.servers.user_part import UserPart, are_plain_arrays
from fleetsim.errors import FleetsimError, SimulationError

_NUMBER = int | float | np.number | None


class CheckedSelector:
    """Selector whose answers are right, or end the run."""

    def __init__(self, selector: Selector, user: UserPart | None, clock: Clock | None) -> None:
        self._selector = selector
        self._user = user
        self._clock = clock
        self.name = type(selector).__name__

    def fault(self, method: str, required: str, *got: object, reason: str = "") -> FleetsimError:
        """Return the error about a wrong answer of a method, from what it must return instead."""
        text = ", got ".join([f"{method} must return {required}", *map(text_of, got)]) + reason
        if self._clock is None:
            assert self._user is not None  # without a run, it is rehearsed
            return self._user.error(text)
        time_s = float(self._clock.now)
        if self._user is None:
            return SimulationError(f"{self.name}.{text}", time_s)
        return self._user.error(f"at virtual time {time_s!r} s, {text}")

    def setup(self, fleet: FleetView) -> list[ProbeRequest]:
        """Show the fleet to the selector; return its first probes."""
        self._size, self._num_weights = fleet.num_samples.size, fleet.parameters.size
        return self._probes("setup", self._selector.setup(fleet))

    def probe(self, view: RoundView) -> list[ProbeRequest]:
        """Return the probes of one stage, of distinct clients."""
        return self._probes("probe", self._selector.probe(view))

    def _probes(self, method: str, answer: Any) -> list[ProbeRequest]:
        if not (
            isinstance(answer, Sequence) and all(isinstance(each, ProbeRequest) for each in answer)
        ):
            raise self.fault(method, "a sequence of ProbeRequests, () for none", answer)
        requests = [self._probe(method, request) for request in answer]
        clients = [request.client for request in requests]
        if len(set(clients)) < len(clients):
            raise self.fault(method, "one ProbeRequest for each client", clients)
        return requests

    def _probe(self, method: str, request: ProbeRequest) -> ProbeRequest:
        work, given, belief = request.work, request.parameters, request.belief
        sizes = [request.download_byte, request.upload_byte]
        model = None if given is None else _model(given, self._num_weights)
        is_client = _is_count(request.client) and request.client < self._size
        is_model = given is None or model is not None
        for is_right, required, got in [
            (is_client, f"a client from 0 to {self._size - 1}", request.client),
            (_is_work(work), "a Work of whole numbers, and epochs or steps of a training", work),
            (all(map(_is_count, sizes)), "whole numbers of bytes, at least 0", sizes),
            (is_model, f"{self._num_weights} finite numbers as parameters", given),
            (isinstance(belief, _NUMBER), "a number as belief", belief),
        ]:
            if not is_right:
                raise self.fault(method, f"ProbeRequests with {required}", got)
        return request if model is given else replace(request, parameters=model)

    def select(self, view: RoundView) -> Cohort:
        """Return the selected cohort, of distinct candidates."""
        answer = self._selector.select(view)
        cohort = answer if isinstance(answer, Cohort) else Cohort(answer)
        chosen = _chosen(cohort.clients, view)
        if isinstance(chosen, str):
            required = f"at most {view.wanted} distinct clients of view.candidates"
            raise self.fault("select", required, cohort.clients, reason=chosen)
        start = cohort.start
        if start is not None:
            start = _model(start, self._num_weights)
            if start is None:
                required = f"{self._num_weights} finite numbers as start"
                raise self.fault("select", required, cohort.start)
        return replace(cohort, clients=chosen, start=start)

    def observe(self, outcome: RoundOutcome) -> str | None:
        """Show the outcome of a round; return the selector's numbers on it as JSON, if any."""
        self._selector.observe(outcome)
        ask: Any = getattr(self._selector, "diagnostics", None)
        if ask is None:
            return None
        answer: Any = ask() if callable(ask) else ask
        try:
            return diagnostics_text(answer)
        except (TypeError, ValueError, OverflowError):
            raise self.fault(
                "diagnostics",
                "finite numbers, or lists of them, by names that are identifiers, {} for none",
                answer,
            ) from None

    def state(self) -> State:
        """Return the selector's state for a checkpoint."""
        state = self._selector.state()
        if not are_plain_arrays(state):
            raise self.fault("state", "a dict of arrays without objects, by name", state)
        return state

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        self._selector.restore(state)


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0


def _is_work(work: object) -> bool:
    if not isinstance(work, Work) or not isinstance(work.kind, WorkKind):
        return False
    counts = [n for n in (work.epochs, work.steps, work.num_samples) if n is not None]
    if not all(map(_is_count, counts)) or work.num_samples == 0:
        return False
    return work.kind is not WorkKind.TRAIN or bool(work.epochs or work.steps)


def _model(given: object, size: int) -> Parameters | None:
    """Return a model [P] that a selector gives; None if it is none."""
    array = array_of(given)
    if array.shape != (size,) or array.dtype.kind not in "iuf":
        return None
    with np.errstate(over="ignore"):  # refused below
        model: Parameters = array.astype(np.float32, copy=False)
    return model if np.isfinite(model).all() else None


def _chosen(answer: object, view: RoundView) -> IntArray | str:
    """Return the numbers of clients [n] that a selector chose, or what is wrong with them."""
    numbers = array_of(answer)
    is_empty = numbers.shape == (0,)
    if numbers.ndim != 1 or not (is_empty or numbers.dtype.kind in "iu"):
        return "; their numbers are a list or an array [n] of integers"
    if numbers.size > view.wanted:
        return f"; these are {numbers.size}"
    clients = numbers.astype(np.int64)
    place = view.candidates.searchsorted(clients).clip(max=view.candidates.size - 1)
    strangers = clients[view.candidates[place] != clients]
    if strangers.size:
        return (
            f"; {strangers[0]} is none of them now (view.candidates[i] is the number of candidate"
            " i, and i is not)"
        )
    return clients if np.unique(clients).size == clients.size else "; one is there twice"


def diagnostics_text(answer: Any) -> str | None:
    """Return a selector's numbers as a JSON object with sorted keys; None without any."""
    if not isinstance(answer, Mapping):
        raise TypeError
    if not all(isinstance(name, str) and name.isidentifier() for name in answer):
        raise ValueError
    numbers = {name: _value(value) for name, value in answer.items()}
    return json.dumps(numbers, sort_keys=True, allow_nan=False) if numbers else None


def _value(value: Any) -> float | list[float]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        return [_number(each) for each in value]
    return _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number
