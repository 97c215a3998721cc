"""Selectors of the user's own."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, cast

from fleetsim.contracts import Report, Selector, State, Work, WorkKind
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.training_requests import requests_of
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.host.user_code import user_code
from fleetsim.quoting import quoted
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings
from fleetsim.user.parts.small_server import SmallServer
from fleetsim.user.plugin_kind import PluginKind
from fleetsim.user.watched_calls import CalledThrough, TwinCalls, WatchedCalls, same

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
    page = "docs/selectors.md"
    takes_classes = False
    copies_objects = False

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return also that a need is not declared."""
        message = super().fault(made)
        if message is not None:
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
        first, state, server = _rounds(make(), calls, SmallServer())
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
