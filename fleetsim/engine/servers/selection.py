"""How a server asks its selector: what it shows, what it sends out as probes, what it accepts."""

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
    Outcome,
    Parameters,
    ProbeRequest,
    Purpose,
    Report,
    RoundView,
    Selector,
    State,
    WorkKind,
)
from fleetsim.engine.event_order import Clock
from fleetsim.engine.servers.dispatch import Dispatcher
from fleetsim.engine.servers.global_model import GlobalModel, Learning
from fleetsim.engine.servers.rounds import refused_probe, report_of
from fleetsim.engine.servers.training_requests import Ask, asks_of, in_part
from fleetsim.engine.tasks.task import Task
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError, SimulationError
from fleetsim.fleet.traces.periodic import freeze

_PROBE_ADDRESS = 1
_SETUP_STAGE = -1
_MAX_STAGES = 1000
_MAX_SHOWN = 500


class Choice:
    """Runs a selector against the world: set-up, probing in stages, and the choice itself."""

    def __init__(
        self,
        selector: Selector,
        *,
        clock: Clock,
        world: World,
        dispatcher: Dispatcher,
        model: GlobalModel,
        learning: Learning,
        cohort: int,
        wanted: int,
        probe_deadline_s: float | None,
        planned_rounds: int | None,
        is_resumed: bool,
    ) -> None:
        self._selector = selector
        self._clock = clock
        self._world = world
        self._dispatcher = dispatcher
        self._model = model
        self._learning = learning
        self._wanted = wanted
        self._work = learning.training
        self._probe_deadline_s = probe_deadline_s
        self._shown: tuple[IntArray, IntArray] | None = None
        """Candidates of the last view, and their samples."""
        self._trained: dict[int, Task] = {}
        """Last delivered probe of each client that trained the global model in this round."""
        requests = self._requests(
            "setup",
            selector.setup,
            FleetView(
                seed=world.fleet.seed,
                num_samples=_read_only(world.fleet.num_samples),
                cohort=cohort,
                epochs=learning.epochs,
                steps=learning.steps,
                batch_size=learning.batch_size,
                learning_rate=learning.learning_rate_at(1),
                planned_rounds=planned_rounds,
                parameters=learning.parameters,
                payload_byte=learning.cost.payload_byte,
                position_m=world.fleet.position_m,
                validation=model.validate(),
            ),
        )
        self._setup_requests = [] if is_resumed else requests

    def refuse_probes(self, round_: int) -> None:
        """For servers that cannot probe, where a selector says that it needs no probes.

        Raises:
            ScenarioError: it asks for something before its choice all the same.
        """
        view = self._view(round_, [], 0)
        if self._setup_requests or self._requests("probe", self._selector.probe, view):
            raise ScenarioError(
                f"server.selector: {type(self._selector).__name__} says needs_probes = False, but"
                " asks clients before it chooses, which server.mode = 'buffered' has no moment"
                " for; let it say True, and set server.mode: synchronous"
            )

    def probe(
        self, round_: int, reports: list[Report], tasks: list[Task]
    ) -> Generator[simpy.Event, None, None]:
        """Let the selector ask, stage by stage, until it asks nothing more.

        Args:
            round_: of which round.
            reports: what came back is appended, in order of arrival.
            tasks: ended probe tasks are appended, in order of dispatch.
        """
        self._trained = {c: task for c, task in self._trained.items() if task.round == round_}
        if self._setup_requests:
            requests, self._setup_requests = self._setup_requests, []
            yield from self._send(round_, _SETUP_STAGE, requests, reports, tasks)
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
            yield from self._send(round_, stage, requests, reports, tasks)
            stage += 1

    def _send(
        self,
        round_: int,
        stage: int,
        requests: list[ProbeRequest],
        reports: list[Report],
        tasks: list[Task],
    ) -> Generator[simpy.Event, None, None]:
        """One stage of probing: everybody asked at once, until all have answered or failed."""
        there = set(self._world.candidates(self._now_s).tolist())
        reports += [
            refused_probe(request.client, self._now_s)
            for request in requests
            if request.client not in there
        ]
        asked = [request for request in requests if request.client in there]
        sent = [self._task(round_, stage, request) for request in asked]
        yield from self._dispatcher.run(sent, enough=len(sent), deadline_s=self._probe_deadline_s)
        results = self._dispatcher.collect(sent)
        for task, request in zip(sent, asked, strict=True):
            if task.outcome is Outcome.DELIVERED:
                task.belief = request.belief
                if request.is_opinion and task.task in results:
                    task.opinion = results[task.task].accuracy
        tasks += sent
        self._trained |= {task.client: task for task in sent if self._can_go_on(task)}
        by_arrival = sorted(sent, key=lambda task: (task.finished_at_s, task.task))
        reports += [report_of(task, results.get(task.task)) for task in by_arrival]

    def choose(
        self, round_: int, reports: list[Report], *, at_most: int | None = None
    ) -> list[Ask]:
        """What is asked of whom among the present candidates, maybe of nobody.

        Args:
            round_: number of the choice.
            reports: what probes brought back for it.
            at_most: how many are wanted, if other than always.

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
                f" candidates, got {_shown(cohort.clients)}",
                time_s=self._now_s,
            )
        try:
            asks = asks_of(replace(cohort, clients=chosen), self._work, self._trained)
        except ValueError as fault:
            raise SimulationError(
                f"{type(self._selector).__name__}.select must give {fault}", time_s=self._now_s
            ) from None
        if asks and cohort.start is not None:
            self._model.replace(self._start(cohort.start))
        return in_part(
            asks,
            self._work,
            chance=self._learning.partial_fraction,
            address=(self._world.fleet.seed, round_),
        )

    def _requests(
        self, name: str, ask: Callable[[Any], Sequence[ProbeRequest]], view: FleetView | RoundView
    ) -> list[ProbeRequest]:
        """What a selector asks clients for.

        Raises:
            SimulationError: the selector broke its contract.
        """
        answer: Any = ask(view)
        if isinstance(answer, Sequence) and all(isinstance(a, ProbeRequest) for a in answer):
            return list(answer)
        raise SimulationError(
            f"{type(self._selector).__name__}.{name} must return a sequence of ProbeRequests,"
            f" () for none, got {_shown(answer)}",
            time_s=self._now_s,
        )

    def _start(self, start: Parameters) -> Parameters:
        """The model that a selector lets its cohort start from.

        Raises:
            SimulationError: the selector broke its contract.
        """
        parameters = np.asarray(start, dtype=np.float32)
        size = self._model.parameters.size
        if parameters.shape != (size,) or not np.isfinite(parameters).all():
            raise SimulationError(
                f"{type(self._selector).__name__}.select must give {size} finite numbers as start,"
                f" got an array of shape {parameters.shape}",
                time_s=self._now_s,
            )
        return parameters

    def _can_go_on(self, task: Task) -> bool:
        """Whether an ended probe trained the global model, so that its client can go on."""
        return (
            task.outcome is Outcome.DELIVERED
            and task.work.kind is WorkKind.TRAIN
            and task.version == self._model.version
        )

    @property
    def _now_s(self) -> float:
        return float(self._clock.now)

    def _view(
        self, round_: int, reports: list[Report], stage: int, at_most: int | None = None
    ) -> RoundView:
        candidates = self._world.candidates(self._now_s)
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

    def _task(self, round_: int, stage: int, request: ProbeRequest) -> Task:
        yields_vector = request.work.kind in (WorkKind.GRADIENT, WorkKind.TRAIN)
        uploads_vector = yields_vector and request.uploads_vector
        payload_byte = self._learning.cost.payload_byte if uploads_vector else 0
        own = request.parameters
        return self._dispatcher.task(
            request.client,
            round_=round_,
            purpose=Purpose.PROBE,
            work=request.work,
            base=self._model.parameters if own is None else own,
            version=self._model.version if own is None else -1,
            address=(_PROBE_ADDRESS, round_, stage),
            needs_model=request.needs_model,
            upload_byte=request.upload_byte + payload_byte,
            download_byte=request.download_byte,
            uploads_vector=uploads_vector,
            asks_resources=request.asks_resources,
        )


def state_of(selector: Selector, *, time_s: float) -> State:
    """What a selector must keep over a stop.

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
        f" got {_shown(state)}",
        time_s=time_s,
    )


def _whole_numbers(answer: object) -> IntArray | None:
    """Numbers of clients [n] as a selector gave them; None if they are no such thing."""
    try:
        numbers = np.asarray(answer)
    except ValueError:
        return None  # lists of several lengths in one list
    is_empty = numbers.shape == (0,)
    if numbers.ndim != 1 or not (is_empty or numbers.dtype.kind in "iu"):
        return None
    return numbers.astype(np.int64)


def _shown(answer: object) -> str:
    """What a selector gave, on one line and not too long."""
    listed = answer.tolist() if isinstance(answer, np.ndarray) else answer
    text = " ".join(repr(listed).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _are_among(clients: IntArray, candidates: IntArray) -> bool:
    """Whether all of some clients are among these, which ascend."""
    place = candidates.searchsorted(clients).clip(max=candidates.size - 1)
    return bool((candidates[place] == clients).all())


def _read_only(array: IntArray) -> IntArray:
    """A copy that a selector cannot change."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
