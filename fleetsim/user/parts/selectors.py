"""Selectors of the user's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import (
    Cohort,
    FleetView,
    IntArray,
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    Selector,
    State,
    Work,
    WorkKind,
)
from fleetsim.engine.servers.training_requests import requests_of
from fleetsim.host.own_code import own_code
from fleetsim.quoting import quoted
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings
from fleetsim.user.parts.aggregators import state_fault
from fleetsim.user.parts.small_server import SmallServer
from fleetsim.user.plugin_kind import PluginKind
from fleetsim.user.watched_calls import TwinCalls, WatchedCalls, same

_NUM_ROUNDS = 6
_RESTART = 3
"""Number of rounds after which the restarted selector takes over."""
_MOST_STAGES = 1000
_COMPARED_STAGES = 50
"""Stages of a round after which views, which grow with each, are not compared any more."""

Answers = list[tuple[int, str, Any]]
"""Round, method and answer of every call."""


class SelectorPlugins(PluginKind):
    """Kind of the selectors, at `server.selector`."""

    name: ClassVar[str] = "selector"
    noun: ClassVar[str] = "a selector"
    key_path: ClassVar[KeyPath | None] = ("server", "selector")
    protocol: ClassVar[type] = Selector
    marks: ClassVar[frozenset[str]] = frozenset({"setup", "probe", "select", "observe"})
    bundled = KINDS
    settings_base: ClassVar[type[Settings]] = Settings
    page: ClassVar[str] = "docs/selectors.md"
    takes_classes: ClassVar[bool] = False
    copies_objects: ClassVar[bool] = False

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return also that a need is not declared."""
        says = super().fault(made)
        if says is not None:
            return says
        for need in ("needs_losses", "needs_probes"):
            answer = getattr(made, need, None)
            if not isinstance(answer, bool):
                says = f"{need} must be True or False, not {quoted(answer)}"
                return f"{says}; {cls.page} has an example"
        return None

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it."""
        check_selector(make, calls)


_NUM_TWICE = 2
"""Rounds in which a second object is asked, too."""


def guarded(own: Any, second: Any, said: str) -> Selector:
    """Return a selector of the user's own as a run calls it; `second` is another object of it."""
    # Messages of the engine name the class.
    made: Selector = type(type(own).__name__, (GuardedSelector,), {})(own, second, said)
    return made


class GuardedSelector:
    """Selector of the user's own whose faults are told, and which is asked twice at first."""

    def __init__(self, own: Any, second: Any, said: str) -> None:
        """Wrap an object that satisfies `SelectorPlugins`, and a second one of its class."""
        self.needs_losses: bool = own.needs_losses
        self.needs_probes: bool = own.needs_probes
        self._own, self._said = own, said
        self._calls = TwinCalls(own, second, said)
        self._num_observed = 0

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Call `setup`; it and the others raise PluginError if they fail."""
        asked: Sequence[ProbeRequest] = self._ask("setup", fleet)
        return asked

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Call `probe`."""
        asked: Sequence[ProbeRequest] = self._ask("probe", view)
        return asked

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Call `select`."""
        chosen: IntArray | Cohort = self._ask("select", view)
        return chosen

    def observe(self, outcome: RoundOutcome) -> None:
        """Call `observe`."""
        self._ask("observe", outcome)
        self._num_observed += 1
        if self._num_observed == _NUM_TWICE:
            self._calls.leave_second()

    def state(self) -> State:
        """Call `state`."""
        with own_code(f"{self._said}: state"):
            found: State = self._own.state()
        return found

    def restore(self, state: State) -> None:
        """Call `restore`."""
        self._ask("restore", state)

    def _ask(self, method: str, argument: Any) -> Any:
        return self._calls.ask(method, argument)

    def __getattr__(self, name: str) -> Any:
        """Return another attribute, such as `diagnostics`; calls of methods are guarded alike."""
        found = getattr(self._own, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            with own_code(f"{self._said}: {name}"):
                return found(*arguments)

        return call


def check_selector(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that selectors of one class keep the contract.

    Args:
        make: function that makes a new one.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    first, state, server = _rounds(make(), calls, SmallServer(), saves_after=_RESTART)
    second, _, _ = _rounds(make(), calls, SmallServer())
    for (number, method, one), (_, _, two) in zip(first, second, strict=False):
        if not same(one, two):
            raise calls.refused(
                f"{method} gives two answers in round {number} to equal views; draw from"
                " fleetsim.rng.stream with view.round in the address, and use neither a clock nor"
                " what an earlier object has left"
            )
    after = make()
    calls.call(after, "setup", server.fleet(), names=("fleet",))
    calls.call(after, "restore", state, names=("state",))
    rest, _, _ = _rounds(after, calls, server, begins_after=_RESTART)
    expected = [answer for answer in first if answer[0] > _RESTART]
    for (number, method, one), (_, _, two) in zip(expected, rest, strict=False):
        if not same(one, two):
            raise calls.refused(
                f"{method} gives another answer in round {number} after a restart; restore(state())"
                " must continue all that it keeps, generators included"
            )


def _rounds(
    own: Any,
    calls: WatchedCalls,
    server: SmallServer,
    *,
    begins_after: int = 0,
    saves_after: int | None = None,
) -> tuple[Answers, Any, SmallServer]:
    """Return the answers of a selector, and copies of state and server in between if asked."""
    answers: Answers = []
    saved: tuple[Any, SmallServer] = (None, server)
    reports: list[Report] = []
    if begins_after == 0:
        asked = calls.call(own, "setup", server.fleet(), names=("fleet",))
        reports = _answered(asked, "setup", answers, calls, server)
    for number in range(begins_after + 1, _NUM_ROUNDS + 1):
        server.round = number
        for stage in range(_MOST_STAGES + 1):
            view = server.view(reports, stage=stage)
            compares = stage < _COMPARED_STAGES
            asked = calls.call(own, "probe", view, names=("the view",), compares=compares)
            if stage == _MOST_STAGES and asked:
                says = f"probe asks for more in stage {stage} still; it must return () in the end"
                raise calls.refused(says)
            more = _answered(asked, "probe", answers, calls, server)
            reports += more
            if not more:
                break
        view = server.view(reports)
        answer = calls.call(own, "select", view, names=("the view",))
        cohort = _checked(answer, view.candidates, view.wanted, server, calls)
        answers.append((number, "select", cohort))
        reports = []
        calls.call(own, "observe", server.outcome(cohort), names=("the outcome",))
        if number == saves_after:
            state = calls.call(own, "state")
            fault = state_fault(state)
            if fault is not None:
                raise calls.refused(f"state returned {fault}")
            saved = copy.deepcopy((state, server))
    return answers, *saved


def _answered(
    asked: Any, method: str, answers: Answers, calls: WatchedCalls, server: SmallServer
) -> list[Report]:
    """Return the reports to the probes that a selector asks for, which are kept in `answers`."""
    is_right = isinstance(asked, Sequence) and all(isinstance(a, ProbeRequest) for a in asked)
    if not is_right:
        says = f"must return a sequence of ProbeRequests, () for none, not {quoted(asked)}"
        raise calls.refused(f"{method} {says}")
    answers.append((server.round, method, list(asked)))
    clients = [request.client for request in asked]
    for client in clients:
        if not 0 <= client < server.num_clients:
            raise calls.refused(
                f"{method} asks client {client}, and there are 0 to {server.num_clients - 1}"
            )
    if len(set(clients)) < len(clients):
        raise calls.refused(f"{method} asks a client twice in one stage")
    return [server.probed(request) for request in asked]


def _checked(
    answer: Any, candidates: Any, wanted: int, server: SmallServer, calls: WatchedCalls
) -> Cohort:
    """Return an answer of `select` as a cohort that the server accepts."""
    cohort = answer if isinstance(answer, Cohort) else Cohort(answer)
    chosen: NDArray[Any]
    try:
        chosen = np.asarray(cohort.clients)
    except ValueError:
        chosen = np.zeros((0, 0))  # lists of different lengths in one list
    is_empty = chosen.shape == (0,)
    if chosen.ndim != 1 or not (is_empty or np.issubdtype(chosen.dtype, np.integer)):
        says = f"numbers of clients [n] or a Cohort, not {quoted(cohort.clients)}"
        raise calls.refused(f"select must return {says}")
    if chosen.size > wanted:
        raise calls.refused(f"select returned {chosen.size} clients, and view.wanted is {wanted}")
    if len(set(chosen.tolist())) < chosen.size:
        raise calls.refused("select returned a client twice")
    others = np.setdiff1d(chosen, candidates)
    if others.size:
        raise calls.refused(f"select returned client {others[0]}, which is not in view.candidates")
    cohort = replace(cohort, clients=chosen.astype(np.int64))
    if cohort.continues is not None:
        return cohort  # only a run knows the trainings that were delivered
    try:
        requests_of(cohort, Work(WorkKind.TRAIN, epochs=server.fleet().epochs), {})
    except ValueError as fault:
        raise calls.refused(f"select must give {fault}") from None
    return cohort
