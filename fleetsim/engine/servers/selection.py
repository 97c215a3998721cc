"""Calls of the selector by the server: views, probes, and checks of its answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import simpy

from fleetsim.contracts import (
    Cohort,
    FleetView,
    IntArray,
    Parameters,
    ProbeRequest,
    Report,
    RoundView,
    Selector,
    State,
    WorkKind,
)
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.dispatch import Dispatcher
from fleetsim.engine.servers.global_model import GlobalModel
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.rounds import refused_probe, report_of
from fleetsim.engine.servers.training_requests import in_part, requests_of
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError, SimulationError
from fleetsim.read_only import freeze

_SETUP_STAGE = -1
_MAX_STAGES = 1000
_MAX_SHOWN = 500


class Selection:
    """Selector in its world: set-up, probing in stages, and the selection itself."""

    def __init__(
        self,
        parts: Parts,
        *,
        clock: Clock,
        world: World,
        dispatcher: Dispatcher,
        model: GlobalModel,
        cohort: int,
        wanted: int,
        probe_deadline_s: float | None,
        planned_rounds: int | None,
        is_resumed: bool,
    ) -> None:
        self._selector, learning = parts.selector, parts.learning
        self._seed = parts.seed
        self._clock = clock
        self._world = world
        self._dispatcher = dispatcher
        self._model = model
        self._learning = learning
        self._wanted = wanted
        self._probe_deadline_s = probe_deadline_s
        self._shown: tuple[IntArray, IntArray] | None = None
        """Candidates of the last view, and their numbers of samples."""
        self._trained: dict[int, Task] = {}
        """Last delivered probe of each client that trained the global model in this round."""
        num_samples = world.fleet.num_samples.copy()
        freeze(num_samples)
        if learning.label_coverage is not None:
            freeze(learning.label_coverage)
        requests = self._requests(
            "setup",
            self._selector.setup,
            FleetView(
                seed=parts.seed,
                num_samples=num_samples,
                cohort=cohort,
                epochs=learning.training.epochs,
                steps=learning.training.steps,
                batch_size=learning.batch_size,
                learning_rate=learning.learning_rate_at(1),
                planned_rounds=planned_rounds,
                parameters=learning.parameters,
                payload_byte=learning.cost.payload_byte + learning.wire.download_byte,
                position_m=world.fleet.position_m,
                validation=model.validate(),
                clients_hash=parts.clients_hash,
                layer_counts=learning.cost.layer_counts,
                label_coverage=learning.label_coverage,
            ),
        )
        self._setup_requests = [] if is_resumed else requests

    def refuse_probes(self, round_: int) -> None:
        """Check that a selector that declares to need no probes asks for none.

        Raises:
            ScenarioError: it asks clients before its selection.
        """
        view = self._view(round_, [], 0)
        if self._setup_requests or self._requests("probe", self._selector.probe, view):
            raise ScenarioError(
                f"server.selector: {type(self._selector).__name__} says needs_probes = False, but"
                " asks clients before it chooses, which server.mode = 'buffered' has no moment"
                " for; let it say True, and set server.mode: synchronous"
            )

    def probe(
        self, round_: int, reports: list[Report], probes: list[TaskResult]
    ) -> Generator[simpy.Event, None, None]:
        """Let the selector probe, stage by stage, until it asks nothing more.

        Reports are appended to `reports` in order of arrival, results to `probes` in order of
        dispatch.
        """
        self._trained = {c: task for c, task in self._trained.items() if task.round == round_}
        if self._setup_requests:
            requests, self._setup_requests = self._setup_requests, []
            yield from self._send(round_, _SETUP_STAGE, requests, reports, probes)
        stage = 0
        while not self._dispatcher.time_is_up.processed:
            view = self._view(round_, reports, stage)
            requests = self._requests("probe", self._selector.probe, view)
            if not requests:
                return
            if stage == _MAX_STAGES:
                raise SimulationError(
                    f"{type(self._selector).__name__}.probe has not ended after {stage} stages",
                    time_s=self._now_s,
                )
            yield from self._send(round_, stage, requests, reports, probes)
            stage += 1

    def _send(
        self,
        round_: int,
        stage: int,
        requests: list[ProbeRequest],
        reports: list[Report],
        probes: list[TaskResult],
    ) -> Generator[simpy.Event, None, None]:
        """Run one stage of probing: all clients at once, until all have answered or failed."""
        present = set(self._world.eligible.candidates(self._now_s).tolist())
        reports += [
            refused_probe(request.client, self._now_s)
            for request in requests
            if request.client not in present
        ]
        asked = [request for request in requests if request.client in present]
        sent = [
            self._dispatcher.probe(
                request,
                round_=round_,
                stage=stage,
                base=self._model.parameters,
                version=self._model.version,
            )
            for request in asked
        ]
        ended = yield from self._dispatcher.run(
            sent, enough=len(sent), deadline_s=self._probe_deadline_s
        )
        collected = self._dispatcher.collect(ended)
        probes += [
            result._replace(opinion=yielded.accuracy)
            if request.is_opinion and result.is_delivered and yielded is not None
            else result
            for request, (result, yielded) in zip(asked, collected, strict=True)
        ]
        self._trained |= {
            result.task.client: result.task
            for result, _ in collected
            if result.is_delivered
            and result.task.work.kind is WorkKind.TRAIN
            and result.task.version == self._model.version
        }
        collected.sort(key=lambda one: (one[0].finished_at_s, one[0].task.number))
        reports += [report_of(result, yielded) for result, yielded in collected]

    def select(
        self, round_: int, reports: list[Report], *, at_most: int | None = None
    ) -> list[TrainingRequest]:
        """Return the requests of the selector to the present candidates, possibly none.

        Raises:
            SimulationError: the selector broke its contract.
        """
        view = self._view(round_, reports, 0, at_most)
        if view.candidates.size == 0:
            return []
        answer = self._selector.select(view)
        cohort = answer if isinstance(answer, Cohort) else Cohort(answer)
        chosen = _whole_numbers(cohort.clients)
        is_right = (
            chosen is not None
            and chosen.size <= view.wanted
            and len(set(chosen.tolist())) == chosen.size
            and _are_among(chosen, view.candidates)
        )
        if chosen is None or not is_right:
            raise SimulationError(
                f"{type(self._selector).__name__}.select must return at most {view.wanted} distinct"
                f" candidates, got {text_of(cohort.clients)}",
                time_s=self._now_s,
            )
        try:
            requests = requests_of(
                replace(cohort, clients=chosen), self._learning.training, self._trained
            )
        except ValueError as fault:
            raise SimulationError(
                f"{type(self._selector).__name__}.select must give {fault}", time_s=self._now_s
            ) from None
        if requests and cohort.start is not None:
            self._model.replace(self._start(cohort.start))
        return in_part(
            requests,
            self._learning.training,
            chance=self._learning.partial_fraction,
            address=(self._seed, round_),
        )

    def _requests(
        self, name: str, ask: Callable[[Any], Sequence[ProbeRequest]], view: FleetView | RoundView
    ) -> list[ProbeRequest]:
        """Return the probes that a selector asks for, checked."""
        answer: Any = ask(view)
        if isinstance(answer, Sequence) and all(isinstance(a, ProbeRequest) for a in answer):
            return list(answer)
        raise SimulationError(
            f"{type(self._selector).__name__}.{name} must return a sequence of ProbeRequests,"
            f" () for none, got {text_of(answer)}",
            time_s=self._now_s,
        )

    def _start(self, start: Parameters) -> Parameters:
        """Return the model from which a selector lets its cohort start, checked."""
        parameters = np.asarray(start, dtype=np.float32)
        size = self._model.parameters.size
        if parameters.shape != (size,) or not np.isfinite(parameters).all():
            raise SimulationError(
                f"{type(self._selector).__name__}.select must give {size} finite numbers as start,"
                f" got an array of shape {parameters.shape}",
                time_s=self._now_s,
            )
        return parameters

    @property
    def _now_s(self) -> float:
        return float(self._clock.now)

    def _view(
        self, round_: int, reports: list[Report], stage: int, at_most: int | None = None
    ) -> RoundView:
        candidates = self._world.eligible.candidates(self._now_s)
        if self._shown is None or self._shown[0] is not candidates:
            num_samples = self._world.fleet.num_samples[candidates]
            freeze(num_samples)
            self._shown = (candidates, num_samples)
        return RoundView(
            round=round_,
            now_s=self._now_s,
            wanted=self._wanted if at_most is None else at_most,
            candidates=candidates,
            num_samples=self._shown[1],
            parameters=self._model.parameters,
            reports=tuple(reports),
            stage=stage,
            learning_rate=self._learning.learning_rate_at(round_),
        )


def state_of(selector: Selector, *, time_s: float) -> State:
    """Return the state of a selector for a checkpoint.

    Raises:
        SimulationError: the selector broke its contract.
    """
    state: Any = selector.state()
    if isinstance(state, dict) and all(
        isinstance(name, str) and isinstance(array, np.ndarray) and not array.dtype.hasobject
        for name, array in state.items()
    ):
        return state
    raise SimulationError(
        f"{type(selector).__name__}.state must return a dict of arrays without objects, by name,"
        f" got {text_of(state)}",
        time_s=time_s,
    )


def _whole_numbers(answer: object) -> IntArray | None:
    """Return numbers of clients [n] as a selector gave them; None if they are not whole numbers."""
    try:
        numbers = np.asarray(answer)
    except ValueError:
        return None  # lists of different lengths in one list
    is_empty = numbers.shape == (0,)
    if numbers.ndim != 1 or not (is_empty or numbers.dtype.kind in "iu"):
        return None
    return numbers.astype(np.int64)


def text_of(answer: object) -> str:
    """Return an answer of a selector on one line, shortened."""
    listed = answer.tolist() if isinstance(answer, np.ndarray) else answer
    text = " ".join(repr(listed).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _are_among(clients: IntArray, candidates: IntArray) -> bool:
    """Return whether all clients are among the candidates, which ascend."""
    place = candidates.searchsorted(clients).clip(max=candidates.size - 1)
    return bool((candidates[place] == clients).all())
