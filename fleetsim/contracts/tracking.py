"""Facts of a run for its trackers, and the Protocol of a tracker."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from fleetsim.contracts.recording import RoundRow


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """Facts of a run when it begins, or when it continues."""

    name: str
    """Name of the scenario."""
    folder: Path
    """Run folder; a tracker writes nothing into it."""
    scenario: Mapping[str, Any]
    """Resolved scenario as plain data, with every default."""
    seed: int
    scenario_hash: str
    versions: Mapping[str, str]
    """Versions of fleetsim, Python, torch and the like."""
    identity: str
    """16 hexadecimal digits that tell this run from others and stay the same when it continues:
    of the scenario and of the path of its folder."""
    num_rounds: int
    """Rounds that are saved; the next that is told is the one after. 0: the run begins."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """End of a run, or of this part of it."""

    folder: Path
    """Run folder; the tables of a run that is done are in it."""
    status: Literal["done", "interrupted", "failed"]
    """`interrupted` and `failed` runs can be continued."""
    text: str
    """Reason in one sentence."""
    digest: str | None
    """SHA-256 of the tables of a run that is done."""


class Tracker(Protocol):
    """Follower of a run that tells somebody else about it, such as TensorBoard.

    A run calls `begin`, then `round` after every round, then `end`; the last also if the run is
    interrupted or fails. Nothing that a tracker does changes the run: it gets values alone, and its
    files belong elsewhere than in the run folder. The next run calls `begin` anew.

    A run that is continued calls `begin` with the rounds that are saved (`TrackedRun.num_rounds`).
    Rounds after them, which an earlier process may have told before it was killed, are told again
    with the same values. So a round replaces what was known of its number.

    An exception of a tracker stops the run, which is saved and can be continued; a tracker that
    would rather miss rounds catches its own exceptions.
    """

    def begin(self, run: TrackedRun) -> None:
        """Take the facts of a run that begins or continues, before its next round."""

    def round(self, row: RoundRow) -> None:
        """Take the row of a round, with the columns of rounds.parquet; docs/outputs.md has them."""

    def end(self, run: EndedRun) -> None:
        """Take the end of the run, after its tables are written, and close what is open."""
