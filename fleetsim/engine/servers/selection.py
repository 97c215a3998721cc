"""Calls of the selector by the server: views, probes, and checks of its answers."""

from collections.abc import Generator

import simpy

from fleetsim.contracts import (
    Evaluation,
    FleetView,
    IntArray,
    Outcome,
    ProbeRequest,
    Purpose,
    Report,
    RoundView,
    WorkKind,
)
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.dispatch import Dispatcher
from fleetsim.engine.servers.global_model import GlobalModel
from fleetsim.engine.servers.launcher import Launcher
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.rounds import report_of
from fleetsim.engine.servers.training_requests import in_part, requests_of
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.errors import ScenarioError
from fleetsim.read_only import freeze

_SETUP_STAGE = -1
_MAX_STAGES = 1000


class Selection:
    """Selector in its world: set-up, probing in stages, and the selection itself."""

    def __init__(
        self,
        parts: Parts,
        launcher: Launcher,
        dispatcher: Dispatcher,
        *,
        model: GlobalModel,
        selector: CheckedSelector,
        most: int,
        deadline_s: float | None,
        setup_requests: list[ProbeRequest],
    ) -> None:
        """Select up to `most` clients; stages of probing last at most `deadline_s`."""
        self._learning, self._seed = parts.learning, parts.seed
        self._launcher, self._dispatcher, self._world = launcher, dispatcher, launcher.world
        self._model, self._selector = model, selector
        self._most, self._deadline_s = most, deadline_s
        self._setup_requests = setup_requests
        self._shown: tuple[IntArray, IntArray] | None = None
        self._trained: dict[int, Task] = {}
        """Last delivered probe of each client that trained the global model in this round."""

    def refuse_probes(self, round_: int) -> None:
        """Check that a selector that declares to need no probes asks for none."""
        view = self._view(round_, [], 0)
        if self._setup_requests or self._selector.probe(view):
            raise ScenarioError(
                f"server.selector: {self._selector.name} says needs_probes = False, but"
                " asks clients before it chooses, which server.mode = 'buffered' has no moment"
                " for; let it say True, and set server.mode: synchronous"
            )

    def probe(
        self, round_: int, reports: list[Report], probes: list[TaskResult]
    ) -> Generator[simpy.Event, None, None]:
        """Let the selector probe in stages; append reports by arrival, and results by dispatch."""
        self._trained = {c: task for c, task in self._trained.items() if task.round == round_}
        if self._setup_requests:
            requests, self._setup_requests = self._setup_requests, []
            yield from self._send(round_, _SETUP_STAGE, requests, reports, probes)
        stage = 0
        while not self._launcher.is_time_up:
            view = self._view(round_, reports, stage)
            requests = self._selector.probe(view)
            if not requests:
                return
            if stage == _MAX_STAGES:
                raise self._selector.fault(
                    "probe", f"() in the end, and has not after {stage} stages"
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
        now_s = self._launcher.now_s
        present = set(self._world.eligible.candidates(now_s).tolist())
        # A probe is not sent to a client that is not available.
        reports += [
            Report(request.client, Purpose.PROBE, Outcome.OFFLINE, now_s, now_s, num_samples=0)
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
        ended = yield from self._dispatcher.run(sent, enough=len(sent), deadline_s=self._deadline_s)
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
        """Return the requests of the selector to the present candidates, possibly none."""
        view = self._view(round_, reports, 0, at_most)
        if view.candidates.size == 0:
            return []
        cohort = self._selector.select(view)
        try:
            requests = requests_of(cohort, self._learning.training, self._trained)
        except ValueError as fault:
            raise self._selector.fault("select", str(fault)) from None
        if requests and cohort.start is not None:
            self._model.replace(cohort.start.copy())  # the selector may reuse its array
        return in_part(
            requests,
            self._learning.training,
            chance=self._learning.partial_fraction,
            address=(self._seed, round_),
        )

    def _view(
        self, round_: int, reports: list[Report], stage: int, at_most: int | None = None
    ) -> RoundView:
        now_s = self._launcher.now_s
        candidates = self._world.eligible.candidates(now_s)
        if self._shown is None or self._shown[0] is not candidates:
            num_samples = self._world.fleet.num_samples[candidates]
            freeze(num_samples)
            self._shown = (candidates, num_samples)
        return RoundView(
            round=round_,
            now_s=now_s,
            wanted=self._most if at_most is None else at_most,
            candidates=candidates,
            num_samples=self._shown[1],
            parameters=self._model.parameters,
            reports=tuple(reports),
            stage=stage,
            learning_rate=self._learning.learning_rate_at(round_),
        )


def fleet_view(
    parts: Parts, *, cohort: int, planned_rounds: int | None, validation: Evaluation | None
) -> FleetView:
    """Return what a selector is shown before the first round."""
    learning, num_samples = parts.learning, parts.fleet.num_samples.copy()
    freeze(num_samples)
    if learning.label_coverage is not None:
        freeze(learning.label_coverage)
    return FleetView(
        seed=parts.seed,
        num_samples=num_samples,
        cohort=cohort,
        epochs=learning.training.epochs,
        steps=learning.training.steps,
        batch_size=learning.batching.size,
        last_batch=learning.batching.last,
        learning_rate=learning.learning_rate_at(1),
        planned_rounds=planned_rounds,
        parameters=learning.parameters,
        payload_byte=learning.cost.payload_byte + learning.wire.download_byte,
        position_m=parts.fleet.position_m,
        validation=validation,
        clients_hash=parts.clients_hash,
        layer_counts=learning.cost.layer_counts,
        label_coverage=learning.label_coverage,
    )
