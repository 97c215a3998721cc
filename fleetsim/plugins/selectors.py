"""Selectors of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fleetsim.contracts import (
    Cohort,
    FleetView,
    IntArray,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    Selector,
    State,
)
from fleetsim.host.own_code import own_code
from fleetsim.plugins.conformance.watched_calls import TwinCalls, WatchedCalls
from fleetsim.plugins.plugin_kind import PluginKind
from fleetsim.quoting import quoted
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings


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
        """Rehearse it; see `fleetsim.plugins.conformance.selectors`."""
        from fleetsim.plugins.conformance.selectors import check_selector  # noqa: PLC0415

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
