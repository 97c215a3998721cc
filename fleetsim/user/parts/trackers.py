"""Trackers of the user's own, which change no result."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from fleetsim.contracts import EndedRun, RoundRow, TrackedRun, Tracker
from fleetsim.schema.python_data import document_of
from fleetsim.settings import Settings
from fleetsim.trackers.named import NAMED
from fleetsim.user.plugin import Plugin, PluginKind
from fleetsim.user.watched_calls import WatchedCalls

_SCENARIO = {"name": "check", "seed": 1, "server": {"cohort": 2, "selector": {"kind": "random"}}}


class TrackerPlugins(PluginKind):
    """Kind of the trackers, which have no place in the scenario."""

    name = "tracker"
    noun = "a tracker"
    key_path = None
    protocol = Tracker
    marks = frozenset({"begin", "end"})
    bundled = NAMED
    settings_base = Settings
    page = "`fleetsim docs trackers`"
    copies_objects = False

    @classmethod
    def check(cls, make: Callable[[], Any], calls: WatchedCalls) -> None:
        """Rehearse it; files that it writes elsewhere than in the run folder stay there."""
        tracker = make()
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home) / "check"
            folder.mkdir()
            _follow(
                tracker, calls, folder, saved=0, ended=EndedRun(folder, "done", "done", "0" * 64)
            )
            cut = EndedRun(folder, "interrupted", "interrupted", None)
            _follow(tracker, calls, folder, saved=2, ended=cut)
            _follow(make(), calls, folder, saved=2, ended=cut)


def trackers_among(plugins: Sequence[Plugin]) -> list[Tracker]:
    """Return new trackers of the plug-ins that are some, with the defaults of their settings."""
    return [
        plugin.build(plugin.checked(document_of({"kind": plugin.word}, plugin.label)))
        for plugin in plugins
        if plugin.kind is TrackerPlugins
    ]


def _follow(
    tracker: Any, calls: WatchedCalls, folder: Path, *, saved: int, ended: EndedRun
) -> None:
    """Let a tracker follow a run of two rounds after those that are saved."""
    begun = TrackedRun(
        name="check",
        folder=folder,
        scenario=_SCENARIO,
        seed=1,
        scenario_hash="0" * 64,
        versions={"fleetsim": "0"},
        identity="0123456789abcdef",
        num_rounds=saved,
    )
    _call(tracker, calls, folder, "begin", begun)
    for number in (saved + 1, saved + 2):
        _call(tracker, calls, folder, "round", _row(number))
    _call(tracker, calls, folder, "end", ended)


def _call(tracker: Any, calls: WatchedCalls, folder: Path, method: str, argument: object) -> None:
    calls.call(tracker, method, argument, names=("what it is told",))
    files = sorted(path.name for path in folder.iterdir())
    if files:
        raise calls.refused(f"{method} writes {files[0]} into the run folder; write elsewhere")


def _row(number: int) -> RoundRow:
    """Return a row; rounds of even number were not evaluated, so that they have no accuracy."""
    plain = {int: 3, float: 1.5, bool: True}
    values: dict[str, Any] = {
        name: plain.get(hint) for name, hint in get_type_hints(RoundRow).items()
    }
    values |= {"round": number, "accuracy": 0.5 if number % 2 else None}
    return RoundRow(**values)
