"""Aggregators of the user's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fleetsim import rng
from fleetsim.contracts import Aggregator, BoolArray, Outcome, Parameters, Purpose, Report, State
from fleetsim.errors import PluginError
from fleetsim.host.user_code import user_code
from fleetsim.learning.aggregation.settings import AggregatorSettings
from fleetsim.learning.aggregation.weighted_mean import AggregatorKind
from fleetsim.quoting import quoted, type_name
from fleetsim.user.plugin import PluginKind, PluginSettings, kinds_of
from fleetsim.user.watched_calls import TwinCalls, WatchedCalls, same

DECLARATION = "sees_single_updates"
"""Attribute by which an aggregator says that it needs weighted sums of updates alone."""

_SIZE = 6
_NUM_CLIENTS = 7
_NUM_VERSIONS = 4
_APART = (0.01, 1.0, 100.0)
"""Factors by which two updates are moved apart: by less and by more than limits of single ones."""
_RESTART = 2
"""Number of versions after which the restarted aggregator takes over."""


class AggregatorPluginSettings(PluginSettings, AggregatorKind):
    """Settings of an aggregator of the user's own, which sees every update unless it says not."""

    def needs_single_updates(self) -> bool:
        """Return what the user's object says."""
        return bool(getattr(self.part(), DECLARATION, True))

    def build(self, *, buffers: BoolArray | None = None) -> CheckedAggregator:
        """Return a new aggregator; `buffers` [P] are aggregated like parameters."""
        return CheckedAggregator(self.part(), self.part(), self.plugin.label)


class AggregatorPlugins(PluginKind):
    """Kind of the aggregators, at `server.aggregator`."""

    name = "aggregator"
    noun = "an aggregator"
    key_path = ("server", "aggregator")
    protocol = Aggregator
    optional = frozenset({"state", "restore"})
    marks = frozenset({"aggregate"})
    bundled = kinds_of(AggregatorSettings)
    settings_base = AggregatorPluginSettings

    @classmethod
    def fault(cls, made: object) -> str | None:
        """Return why an object is no aggregator, with the way out; None if it is one."""
        message = super().fault(made)
        declared: Any = getattr(made, DECLARATION, True)
        if message is None and type(declared) is not bool:
            return f"{DECLARATION} must be True or False, not {quoted(declared)}"
        return message

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; see `PluginKind.check`."""
        first, state = _versions(make(), calls, restarts_after=_RESTART)
        second, _ = _versions(make(), calls)
        for number, (one, two) in enumerate(zip(first, second, strict=True), start=1):
            if not same(one, two):
                raise calls.refused(
                    f"aggregate gives two results for version {number} from equal reports; it must"
                    " use neither a clock, nor unseeded draws, nor what an earlier object has left"
                )
        _check_sums(make, calls)
        after = make()
        if state is not None:
            calls.call(after, "restore", state)
        rest, _ = _versions(after, calls, begins_at=_RESTART)
        for number, two in enumerate(rest, start=_RESTART + 1):
            if not same(first[number - 1], two):
                lacks = (
                    "keeps something between calls, and has no state and restore"
                    if state is None
                    else "is not continued by restore(state()): they must hold all that it keeps"
                )
                message = f"aggregate gives another version {number} after a restart; it {lacks}"
                raise calls.refused(message)


class CheckedAggregator:
    """Aggregator of the user's own whose arguments cannot be changed and whose answers are checked.

    The first model is asked of a second object, too.
    """

    def __init__(self, part: Any, second: Any, label: str) -> None:
        """Wrap an aggregator that satisfies `AggregatorPlugins`; `label` names it in messages."""
        self._calls = TwinCalls(part, second, label)
        self._part = part
        self._label = label
        self._keeps_state = AggregatorPlugins.has(part, "state")

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P], a new array."""
        answer = self._calls.ask(
            "aggregate", read_only(base), [_read_only_report(one) for one in reports]
        )
        self._calls.leave_second()
        if (message := model_fault(answer, base)) is not None:
            raise PluginError(f"{self._label}: aggregate returned {message}")
        with np.errstate(over="ignore"):  # refused below
            model = np.array(answer, dtype=np.float32)
        num_broken = model.size - int(np.count_nonzero(np.isfinite(model)))
        if num_broken:
            raise PluginError(
                f"{self._label}: aggregate returned {num_broken} of {model.size} numbers that are"
                " not finite as float32, from finite models; check its divisions, weights and steps"
            )
        return model

    def state(self) -> State:
        """Return its state, copied; empty if it keeps none."""
        if not self._keeps_state:
            return {}
        with user_code(f"{self._label}: state"):
            state = self._part.state()
        if (message := state_fault(state)) is not None:
            raise PluginError(f"{self._label}: state returned {message}")
        return {name: np.array(value) for name, value in state.items()}

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        if self._keeps_state:
            self._calls.ask("restore", state)


def model_fault(answer: Any, base: Parameters) -> str | None:
    """Return what an answer of `aggregate` is instead of a model of the shape of `base`."""
    if not isinstance(answer, np.ndarray):
        return f"{type_name(answer)}, not a numpy array"
    if answer.shape != base.shape:
        return f"an array of shape {answer.shape}, not a model of shape {base.shape}"
    if not np.issubdtype(answer.dtype, np.floating):
        return f"an array of {answer.dtype}, not of float32 or float64"
    return None


def state_fault(state: Any) -> str | None:
    """Return what a state is instead of a dict from names to arrays without objects."""
    if not isinstance(state, dict):
        return f"{type_name(state)}, not a dict of arrays by name"
    for name, value in state.items():
        if not isinstance(name, str) or not name:
            return f"a dict with the key {quoted(name)}, not a name"
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return f"{type_name(value)} as {quoted(name)}, not a numpy array"
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


def _check_sums(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that an aggregator which says that it needs sums alone gets by with them.

    Two updates that say the same beside their models are moved apart, by little and by much, so
    that no weighted sum changes. Then all are summed, as for `server.privacy`.
    """
    if getattr(make(), DECLARATION, True):
        return
    base = _model(0)
    plain = [one._replace(client=k, num_samples=10) for k, one in enumerate(_reports(0))]
    plain = [one._replace(finished_at_s=60.0) for one in plain]
    expected = _aggregated(make(), calls, base, plain)
    apart = rng.stream(1, "plug-in check/apart").normal(size=_SIZE).astype(np.float32)
    for scale in _APART:
        moved = list(plain)
        for index, sign in ((0, 1.0), (3, -1.0)):
            vector: Any = plain[index].vector
            moved[index] = plain[index]._replace(vector=vector + np.float32(sign * scale) * apart)
        model = _aggregated(make(), calls, base, moved)
        if not np.allclose(model, expected, rtol=0.0, atol=1e-5 * max(1.0, scale)):
            raise calls.refused(
                f"says {DECLARATION} = False, and aggregate gives another model for updates of the"
                " same sums; aggregate by sums alone, or leave that out"
            )
    _aggregated(make(), calls, base, [plain[0]._replace(num_samples=1, loss=None)])


def _aggregated(
    part: Any, calls: WatchedCalls, base: Parameters, reports: list[Report]
) -> Parameters:
    """Return the model that an aggregator makes of reports."""
    answer = calls.call(part, "aggregate", base, reports, names=("base", "a report"))
    if (message := model_fault(answer, base)) is not None:
        raise calls.refused(f"aggregate returned {message}")
    return np.array(answer, dtype=np.float32)


def _versions(
    part: Any, calls: WatchedCalls, *, begins_at: int = 0, restarts_after: int | None = None
) -> tuple[list[Parameters], Any]:
    """Return the models that an aggregator makes, and a copy of its state in between if asked."""
    made, state = [], None
    for number in range(begins_at, _NUM_VERSIONS):
        made.append(_aggregated(part, calls, _model(number), _reports(number)))
        if not np.isfinite(made[-1]).all():
            raise calls.refused(
                "aggregate returned numbers that are not finite, from finite models"
            )
        if number + 1 == restarts_after and AggregatorPlugins.has(part, "state"):
            state = calls.call(part, "state")
            if (message := state_fault(state)) is not None:
                raise calls.refused(f"state returned {message}")
            state = copy.deepcopy(state)
    return made, state


def _model(number: int) -> Parameters:
    return rng.stream(1, "plug-in check/model", number).normal(size=_SIZE).astype(np.float32)


def _reports(number: int) -> list[Report]:
    """Return the answers of all clients to a version, near its model."""
    base = _model(number)
    draws = rng.stream(1, "plug-in check/reports", number)
    reports = []
    for client in draws.permutation(_NUM_CLIENTS).tolist():
        begun_s, vector = 60.0 * number, base + 0.1 * draws.normal(size=_SIZE)
        ended_s = begun_s + 10.0 + client
        report = Report(client, Purpose.TRAIN, Outcome.DELIVERED, begun_s, ended_s, 10 + client)
        reports.append(report._replace(loss=1.0, vector=vector.astype(np.float32), base=base))
    return reports
