"""Selectors of the user's own, and their rehearsal on a small server with made-up clients.

Every view, report and outcome of this server is a function of client and round, with new arrays in
each.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Evaluation,
    FleetView,
    Outcome,
    Parameters,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    RoundOutcome,
    RoundView,
    Selector,
    State,
    Work,
    WorkKind,
)
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.training_requests import requests_of
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.host.user_code import user_code
from fleetsim.quoting import quoted
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings
from fleetsim.user.plugin import PluginKind
from fleetsim.user.watched_calls import CalledThrough, TwinCalls, WatchedCalls, same

_SEED = 1
_NUM_PARAMETERS = 8
_ROUND_S = 60.0
_FATES = (Outcome.DELIVERED, Outcome.DELIVERED, Outcome.DELIVERED, Outcome.LATE, Outcome.OFFLINE)


class SmallServer:
    """Server of twenty clients of which two thirds are there in a round."""

    num_clients = 20
    cohort = 4
    wanted = 5
    """Cohort with over-commitment."""

    def __init__(self) -> None:
        self.round = 0
        """Number of the round; 0 before the first."""

    def fleet(self) -> FleetView:
        """Return what a server knows before the first round."""
        draws = rng.stream(_SEED, "plug-in check/fleet")
        num_samples = draws.integers(20, 200, self.num_clients)
        return FleetView(
            seed=_SEED,
            num_samples=num_samples,
            cohort=self.cohort,
            epochs=2,
            batch_size=10,
            learning_rate=0.1,
            planned_rounds=30,
            parameters=self._model(0),
            payload_byte=4 * _NUM_PARAMETERS,
            validation=self._validation(0),
            clients_hash="0" * 64,
            layer_counts={"gemm": 2},
            label_coverage=rng.stream(_SEED, "plug-in check/labels").uniform(
                0.1, 1.0, self.num_clients
            ),
        )

    def view(self, reports: Sequence[Report], *, stage: int = 0) -> RoundView:
        """Return what a server knows when it selects."""
        there = rng.stream(_SEED, "plug-in check/there", self.round).random(self.num_clients)
        candidates = np.flatnonzero(there < 2 / 3)
        return RoundView(
            round=self.round,
            now_s=_ROUND_S * self.round,
            wanted=self.wanted,
            candidates=candidates,
            num_samples=self.fleet().num_samples[candidates],
            parameters=self._model(self.round - 1),
            reports=tuple(reports),
            stage=stage,
            learning_rate=0.1,
        )

    def probed(self, request: ProbeRequest) -> Report:
        """Return the report to a probe."""
        kind = request.work.kind
        return self._report(
            request.client,
            Purpose.PROBE,
            asks_resources=request.asks_resources,
            has_vector=request.uploads_vector and kind in (WorkKind.TRAIN, WorkKind.GRADIENT),
            tells_epochs=request.work.tells_epoch_losses,
        )

    def outcome(self, cohort: Cohort) -> RoundOutcome:
        """Return the outcome of a round with this cohort."""
        reports = tuple(
            self._report(
                client, Purpose.TRAIN, has_vector=True, tells_epochs=cohort.asks_epoch_losses
            )
            for client in cohort.clients.tolist()
        )
        return RoundOutcome(
            round=self.round,
            started_at_s=_ROUND_S * self.round,
            finished_at_s=_ROUND_S * (self.round + 1),
            selected=cohort.clients.copy(),
            reports=reports,
            aggregated=any(report.is_delivered for report in reports),
            parameters=self._model(self.round),
            validation=self._validation(self.round),
        )

    def _report(
        self,
        client: int,
        purpose: Purpose,
        *,
        asks_resources: bool = False,
        has_vector: bool = False,
        tells_epochs: bool = False,
    ) -> Report:
        draws = rng.stream(_SEED, "plug-in check/report", client, self.round)
        change = draws.normal(size=_NUM_PARAMETERS)
        outcome = self._outcome(draws)
        loss = float(draws.exponential()) / (self.round + 1)
        duration_s = float(draws.uniform(1.0, _ROUND_S))
        vector = (self._model(self.round) + change).astype(np.float32)
        begins_s = _ROUND_S * self.round
        num_samples = int(self.fleet().num_samples[client])
        known = Report(client, purpose, outcome, begins_s, begins_s + duration_s, num_samples)
        if not known.is_delivered:
            return known
        return known._replace(
            download_s=0.2 * duration_s,
            compute_s=0.5 * duration_s,
            upload_s=0.3 * duration_s,
            loss=loss,
            loss_rms=1.1 * loss,
            accuracy=float(np.exp(-loss)),
            vector=vector if has_vector else None,
            update_norm=float(np.linalg.norm(vector - self._model(self.round))),
            energy_j=2.0 * duration_s,
            base=self._model(self.round) if purpose is Purpose.TRAIN else None,
            epoch_losses=(1.5 * loss, loss) if tells_epochs else None,
            resources=self._resources(client) if asks_resources else None,
        )

    def _outcome(self, draws: np.random.Generator) -> Outcome:
        return _FATES[int(draws.integers(len(_FATES)))]

    def _resources(self, client: int) -> Resources:
        draws = rng.stream(_SEED, "plug-in check/resources", client, self.round)
        return Resources(
            flop_per_s=float(draws.uniform(1e9, 1e11)),
            ram_byte=int(draws.integers(2**30, 2**33)),
            load_fraction=float(draws.uniform(0.0, 0.9)),
            is_charging=bool(draws.random() < 0.5),
            is_unmetered=True,
            battery_fraction=float(draws.uniform(0.2, 1.0)),
            samples_per_s=float(draws.uniform(1.0, 100.0)),
            down_bit_per_s=float(draws.uniform(1e6, 1e8)),
            up_bit_per_s=float(draws.uniform(1e6, 1e7)),
        )

    def _model(self, round_: int) -> Parameters:
        draws = rng.stream(_SEED, "plug-in check/parameters", round_)
        return draws.normal(size=_NUM_PARAMETERS).astype(np.float32)

    def _validation(self, round_: int) -> Evaluation:
        return Evaluation(accuracy=1.0 - 0.9 / (round_ + 1), loss=2.0 / (round_ + 1))


_NUM_ROUNDS = 6
_RESTART = 3
"""Number of rounds after which the restarted selector takes over."""
_MOST_STAGES = 1000
_COMPARED_STAGES = 50
"""Stages of a round after which views, which grow with each, are not compared any more."""

_ARGUMENTS: Mapping[str, str] = {
    "setup": "fleet",
    "probe": "the view",
    "select": "the view",
    "observe": "the outcome",
    "restore": "state",
}
"""Names of the arguments of methods in messages."""

Answers = list[tuple[int, str, Any]]
"""Round, method and answer of every call."""


class SelectorPlugins(PluginKind):
    """Kind of the selectors, at `server.selector`."""

    name = "selector"
    noun = "a selector"
    key_path = ("server", "selector")
    protocol = Selector
    marks = frozenset({"setup", "probe", "select", "observe"})
    inherited = frozenset({"setup", "probe", "observe", "state", "restore"})
    bundled = KINDS
    settings_base = Settings
    page = "`fleetsim docs own-selectors`"
    takes_classes = False
    copies_objects = False

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return also that a need is not declared."""
        if (message := super().fault(made)) is not None:
            return message
        for need in ("needs_losses", "needs_probes"):
            answer = getattr(made, need, None)
            if not isinstance(answer, bool):
                message = f"{need} must be True or False, not {quoted(answer)}"
                return f"{message}; {cls.page} has an example"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `PluginKind.check`."""
        part = make()
        first, state, server = _rounds(part, calls, SmallServer())
        if not part.needs_probes and any(
            answer for _, method, answer in first if method in ("setup", "probe")
        ):
            raise calls.refused(
                "asks clients before it selects; say so with needs_probes = True in the class, and"
                " needs_losses = True if it selects by losses"
            )
        second, _, _ = _rounds(make(), calls, SmallServer())
        for (number, method, one), (_, _, two) in zip(first, second, strict=False):
            if not same(one, two):
                raise calls.refused(
                    f"{method} gives two answers in round {number} to equal views; draw from"
                    " fleetsim.rng.stream with view.round in the address, and use neither a clock"
                    " nor what an earlier object has left"
                )
        rest, _, _ = _rounds(make(), calls, server, state)
        expected = [answer for answer in first if answer[0] > _RESTART]
        for (number, method, one), (_, _, two) in zip(expected, rest, strict=False):
            if not same(one, two):
                raise calls.refused(
                    f"{method} gives another answer in round {number} after a restart;"
                    " restore(state()) must continue all that it keeps, generators included"
                )


_NUM_TWICE = 2
"""Rounds in which a second object is asked, too."""


def guarded(part: Any, second: Any, label: str) -> Selector:
    """Return a selector of the user's own as a run calls it; `second` is another object of it."""
    # Messages of the engine name the class.
    made = type(type(part).__name__, (GuardedSelector,), {})(part, second, label)
    return cast("Selector", made)


class GuardedSelector(CalledThrough):
    """Selector of the user's own whose faults are told, and which is asked twice at first."""

    def __init__(self, part: Any, second: Any, label: str) -> None:
        """Wrap an object that satisfies `SelectorPlugins`, and a second one of its class."""
        super().__init__(part, self._ask)
        self._label = label
        self._calls = TwinCalls(part, second, label)
        self._num_observed = 0

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call a method; those with an argument are asked of the second object, too."""
        if name not in _ARGUMENTS:
            with user_code(f"{self._label}: {name}"):
                return getattr(self._part, name)(*arguments)
        answer = self._calls.ask(name, *arguments)
        self._num_observed += name == "observe"
        if self._num_observed == _NUM_TWICE:
            self._calls.leave_second()
        return answer


def _rounds(
    part: Any, calls: WatchedCalls, server: SmallServer, restored: State | None = None
) -> tuple[Answers, State, SmallServer]:
    """Return a selector's answers in all rounds, with copies of state and server in between.

    It is not set up. With a state that is `restored` it goes on in the middle.
    """
    compares = True

    def call(name: str, *given: Any) -> Any:
        names = (_ARGUMENTS.get(name, ""),)
        return calls.call(part, name, *given, names=names, compares=compares)

    watched = cast("Selector", CalledThrough(part, call))
    selector = CheckedSelector(watched, UserPart(calls.label, None), None)
    answers: Answers = []
    reports: list[Report] = []
    asked = selector.setup(server.fleet())
    if restored is None:
        answers.append((0, "setup", asked))
        reports = [server.probed(request) for request in asked]
    else:
        selector.restore(restored)
    saved = copy.deepcopy((restored or {}, server))
    for number in range(1 if restored is None else _RESTART + 1, _NUM_ROUNDS + 1):
        server.round = number
        for stage in range(_MOST_STAGES + 1):
            compares = stage < _COMPARED_STAGES
            asked = selector.probe(server.view(reports, stage=stage))
            answers.append((number, "probe", asked))
            if not asked:
                break
            if stage == _MOST_STAGES:
                message = (
                    f"probe asks for more in stage {stage} still; it must return () in the end"
                )
                raise calls.refused(message)
            reports += [server.probed(request) for request in asked]
        compares = True
        cohort = selector.select(server.view(reports))
        if cohort.continues is None:  # only a run knows the trainings that were delivered
            try:
                requests_of(cohort, Work(WorkKind.TRAIN, epochs=server.fleet().epochs), {})
            except ValueError as fault:
                raise calls.refused(f"select must give {fault}") from None
        answers.append((number, "select", cohort))
        reports = []
        selector.observe(server.outcome(cohort))
        if number == _RESTART:
            saved = copy.deepcopy((selector.state(), server))
    return answers, *saved
