"""Aggregators of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from fleetsim.contracts import Aggregator, BoolArray, Parameters, Report, State
from fleetsim.errors import PluginError
from fleetsim.host.own_code import own_code
from fleetsim.learning.aggregation.aggregator_kind import AggregatorKind
from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.plugins.conformance.watched_calls import TwinCalls, WatchedCalls
from fleetsim.plugins.plugin import PluginSettings
from fleetsim.plugins.plugin_kind import PluginKind, kinds_of
from fleetsim.quoting import quoted
from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings

DECLARATION = "sees_single_updates"
"""Attribute by which an aggregator says that it needs weighted sums of updates alone."""


class AggregatorPluginSettings(PluginSettings, AggregatorKind):
    """Settings of an aggregator of the user's own, which sees every update unless it says not."""

    def needs_single_updates(self) -> bool:
        """Return what the user's object says.

        Raises:
            ScenarioError: it cannot be made.
        """
        return bool(getattr(self.part(), DECLARATION, True))

    def build(self, *, buffers: BoolArray | None = None) -> CheckedAggregator:
        """Return a new aggregator; `buffers` [P] are aggregated like parameters."""
        return CheckedAggregator(self.part(), self.part(), self.plugin.said)


class AggregatorPlugins(PluginKind):
    """Kind of the aggregators, at `server.aggregator`."""

    name: ClassVar[str] = "aggregator"
    noun: ClassVar[str] = "an aggregator"
    key_path: ClassVar[KeyPath | None] = ("server", "aggregator")
    protocol: ClassVar[type] = Aggregator
    optional: ClassVar[frozenset[str]] = frozenset({"state", "restore"})
    marks: ClassVar[frozenset[str]] = frozenset({"aggregate"})
    bundled = kinds_of(AggregatorSettings)
    settings_base: ClassVar[type[Settings]] = AggregatorPluginSettings

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object is no aggregator, with the way out; None if it is one."""
        says = super().fault(made)
        declared: Any = getattr(made, DECLARATION, True)
        if says is None and type(declared) is not bool:
            return f"{DECLARATION} must be True or False, not {quoted(declared)}"
        return says

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `fleetsim.plugins.conformance.aggregators`."""
        from fleetsim.plugins.conformance.aggregators import check_aggregator  # noqa: PLC0415

        check_aggregator(make, calls)


class CheckedAggregator:
    """Aggregator of the user's own whose arguments cannot be changed and whose answers are checked.

    The first model is asked of a second object, too.
    """

    def __init__(self, own: Any, second: Any, said: str) -> None:
        """Wrap an aggregator that satisfies `AggregatorPlugins`; `said` names it in messages."""
        self._calls = TwinCalls(own, second, said)
        self._own = own
        self._said = said
        self._keeps_state = AggregatorPlugins.has(own, "state")

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P], a new array.

        Raises:
            PluginError: it fails, or its answer is no array of finite numbers of the model's shape.
        """
        answer = self._calls.ask(
            "aggregate", read_only(base), [_read_only_report(one) for one in reports]
        )
        self._calls.leave_second()
        says = model_fault(answer, base)
        if says is not None:
            raise PluginError(f"{self._said}: aggregate returned {says}")
        with np.errstate(over="ignore"):  # refused below
            model = np.array(answer, dtype=np.float32)
        num_broken = model.size - int(np.count_nonzero(np.isfinite(model)))
        if num_broken:
            raise PluginError(
                f"{self._said}: aggregate returned {num_broken} of {model.size} numbers that are"
                " not finite as float32, from finite models; check its divisions, weights and steps"
            )
        return model

    def state(self) -> State:
        """Return its state, copied; empty if it keeps none.

        Raises:
            PluginError: it is no mapping of arrays by name.
        """
        if not self._keeps_state:
            return {}
        with own_code(f"{self._said}: state"):
            state = self._own.state()
        says = state_fault(state)
        if says is not None:
            raise PluginError(f"{self._said}: state returned {says}")
        return {name: np.array(value) for name, value in state.items()}

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        if self._keeps_state:
            self._calls.ask("restore", state)


def model_fault(answer: Any, base: Parameters) -> str | None:
    """Return what an answer of `aggregate` is instead of a model of the shape of `base`."""
    if not isinstance(answer, np.ndarray):
        return f"{quoted(type(answer).__name__)}, not a numpy array"
    if answer.shape != base.shape:
        return f"an array of shape {answer.shape} for a model of {base.shape}"
    if not np.issubdtype(answer.dtype, np.floating):
        return f"an array of {answer.dtype}, not of float32 or float64"
    return None


def state_fault(state: Any) -> str | None:
    """Return what a state is instead of a dict from names to arrays without objects."""
    if not isinstance(state, dict):
        return f"{quoted(type(state).__name__)}, not a dict of arrays by name"
    for name, value in state.items():
        if not isinstance(name, str) or not name:
            return f"a dict with the key {quoted(name)}, not a name"
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return f"{quoted(type(value).__name__)} as {quoted(name)}, not a numpy array"
    return None


def read_only(array: Any) -> Any:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _read_only_report(report: Report) -> Report:
    """Return a report with arrays that cannot be written to."""
    return report._replace(
        vector=None if report.vector is None else read_only(report.vector),
        base=None if report.base is None else read_only(report.base),
    )
