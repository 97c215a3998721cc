"""Rehearsal of a tracker: a run that ends, then one that continues and is interrupted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from fleetsim.contracts import EndedRun, RoundRow, TrackedRun
from fleetsim.plugins.conformance.watched_calls import WatchedCalls

_SCENARIO = {"name": "check", "seed": 1, "server": {"cohort": 2, "selector": {"kind": "random"}}}


def check_tracker(make: Callable[[], Any], calls: WatchedCalls) -> None:
    """Check that trackers of one class keep the contract.

    Files that the tracker writes elsewhere than in the run folder stay where they are.

    Args:
        make: function that makes a new one.
        calls: calls of its methods.

    Raises:
        ScenarioError: one line on the first fault.
    """
    own = make()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "check"
        folder.mkdir()
        _follow(own, calls, folder, saved=0, ended=EndedRun(folder, "done", "done", "0" * 64))
        cut = EndedRun(folder, "interrupted", "interrupted", None)
        _follow(own, calls, folder, saved=2, ended=cut)
        _follow(make(), calls, folder, saved=2, ended=cut)


def _follow(own: Any, calls: WatchedCalls, folder: Path, *, saved: int, ended: EndedRun) -> None:
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
    _call(own, calls, folder, "begin", begun)
    for number in (saved + 1, saved + 2):
        _call(own, calls, folder, "round", _row(number))
    _call(own, calls, folder, "end", ended)


def _call(own: Any, calls: WatchedCalls, folder: Path, method: str, told: object) -> None:
    calls.call(own, method, told, names=("what it is told",))
    found = sorted(path.name for path in folder.iterdir())
    if found:
        raise calls.refused(f"{method} writes {found[0]} into the run folder; write elsewhere")


def _row(number: int) -> RoundRow:
    """Return a row; rounds of even number were not evaluated, so that they have no accuracy."""
    plain = {int: 3, float: 1.5, bool: True}
    values: dict[str, Any] = {
        name: plain.get(hint) for name, hint in get_type_hints(RoundRow).items()
    }
    values |= {"round": number, "accuracy": 0.5 if number % 2 else None}
    return RoundRow(**values)
