"""How a server asks its selector: what it shows, what it sends out as probes, what it accepts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    Purpose,
    Report,
    RoundView,
    Selector,
    State,
    Work,
    WorkKind,
)
from fleetsim.engine.client import Task
from fleetsim.engine.dispatch import Dispatcher
from fleetsim.engine.model import GlobalModel, Learning
from fleetsim.engine.rounds import refused_probe, report_of
from fleetsim.engine.ties import Clock
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError, SimulationError
from fleetsim.fleet.periodic import freeze

_PROBE_ADDRESS = 1
_SETUP_STAGE = -1
_MAX_STAGES = 1000
_MAX_SHOWN = 500


class Ask(NamedTuple):
    """What a client that was chosen is to do."""

    client: int
    work: Work
    upload_fraction: float = 1.0
    """Share of its update that it is to send."""


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
        self._work = Work(
            WorkKind.TRAIN, epochs=learning.epochs, clock_fraction=learning.clock_fraction
        )
        self._probe_deadline_s = probe_deadline_s
        self._shown: tuple[IntArray, IntArray] | None = None
        """Candidates of the last view, and their samples."""
        requests = self._requests(
            "setup",
            selector.setup,
            FleetView(
                seed=world.fleet.seed,
                num_samples=_read_only(world.fleet.num_samples),
                cohort=cohort,
                epochs=learning.epochs,
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
        """For servers that cannot probe.

        Raises:
            ScenarioError: the selector asks for something before its choice.
        """
        view = self._view(round_, [], 0)
        if self._setup_requests or self._requests("probe", self._selector.probe, view):
            raise ScenarioError(
                f"server.selector: {type(self._selector).__name__} asks clients before it chooses,"
                " which server.mode = 'buffered' has no moment for; choose a selector without"
                " probes, such as random, oort or power-of-choice with variant rpow-d"
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
        sent = [
            self._task(round_, stage, request) for request in requests if request.client in there
        ]
        yield from self._dispatcher.run(sent, enough=len(sent), deadline_s=self._probe_deadline_s)
        results = self._dispatcher.collect(sent)
        tasks += sent
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
        return self._asks(chosen.tolist(), cohort)

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

    def _asks(self, clients: list[int], cohort: Cohort) -> list[Ask]:
        """What a selector's answer asks of everybody.

        Raises:
            SimulationError: the selector broke its contract.
        """
        work, size = self._work, len(clients)
        if all(
            asked is None
            for asked in (cohort.epochs, cohort.clock_fraction, cohort.upload_fraction)
        ):
            return [Ask(client, work) for client in clients]
        epochs: Iterable[int] = [work.epochs] * size
        if cohort.epochs is not None:
            counts = np.asarray(cohort.epochs)
            if counts.shape != (size,) or counts.dtype.kind not in "iu" or (counts < 1).any():
                raise self._broken("epochs", f"{size} whole numbers of at least 1", counts)
            epochs = counts.tolist()
        clocks = self._fractions("clock_fraction", cohort.clock_fraction, work.clock_fraction, size)
        uploads = self._fractions("upload_fraction", cohort.upload_fraction, 1.0, size)
        return [
            Ask(client, Work(WorkKind.TRAIN, epochs=num_epochs, clock_fraction=clock), upload)
            for client, num_epochs, clock, upload in zip(
                clients, epochs, clocks, uploads, strict=True
            )
        ]

    def _fractions(
        self, name: str, values: FloatArray | None, default: float, size: int
    ) -> list[float]:
        if values is None:
            return [default] * size
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (size,) or not ((array > 0.0) & (array <= 1.0)).all():
            raise self._broken(name, f"{size} numbers in (0, 1]", array)
        fractions: list[float] = array.tolist()
        return fractions

    def _broken(self, name: str, wanted: str, values: NDArray[Any]) -> SimulationError:
        return SimulationError(
            f"{type(self._selector).__name__}.select must give {wanted} as {name},"
            f" got {values.tolist()}",
            time_s=self._now_s,
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
            needs_model=request.needs_model or own is not None,
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
