"""Results of runs, one JSON file each, so that an interrupted session can continue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fleetsim.record import atomic_files

SESSION = "session.json"
MACHINE = "machine.json"


@dataclass(frozen=True, slots=True)
class Simulator:
    """Figures that fleetsim records of its run; lists have a cumulative entry per round."""

    training_s: tuple[float, ...]
    evaluation_s: tuple[float, ...]
    num_steps: tuple[int, ...]
    num_tasks: int
    """Number of train tasks that were dispatched in all rounds."""
    used_flop: float
    """FLOP of the train tasks whose updates were used, in all rounds."""
    trainer: str


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one run of one contestant. Times are seconds of `time.monotonic`."""

    work: str
    contestant: str
    repeat: int
    """Number of the repeat, from 1."""
    rounds: int
    """Number of rounds that were requested."""
    error: str | None = None
    """Error message; the fields below are then empty."""
    started_at_s: float = 0.0
    """Start of its process."""
    ended_at_s: float = 0.0
    began_at_s: float = 0.0
    """Start of the first round."""
    round_ended_at_s: tuple[float, ...] = ()
    accuracy: float | None = None
    samples: tuple[tuple[float, float, float], ...] = ()
    """Time, proportional set size (MiB), processor seconds since the start."""
    simulator: Simulator | None = None
    """Figures of fleetsim; None for peers."""


_RESULT = TypeAdapter(Result)


@dataclass(frozen=True, slots=True)
class Store:
    """Folder of a session's results."""

    folder: Path

    def log(self, work: str, contestant: str, repeat: int) -> Path:
        """Return the path of a run's log."""
        return self._path(work, contestant, repeat).with_suffix(".log")

    def find(self, work: str, contestant: str, repeat: int, rounds: int) -> Result | None:
        """Return the result of an earlier run that succeeded; None if there is none."""
        path = self._path(work, contestant, repeat)
        if not path.is_file():
            return None
        found = _RESULT.validate_json(path.read_bytes())
        return found if found.error is None and found.rounds == rounds else None

    def keep(self, result: Result) -> None:
        """Store a result, atomically."""
        path = self._path(result.work, result.contestant, result.repeat)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(path, _RESULT.dump_json(result), hint="make its folder writable")

    def all(self) -> list[Result]:
        """Return all results, sorted by work, contestant and repeat."""
        found = [_RESULT.validate_json(path.read_bytes()) for path in self.folder.glob("*/*.json")]
        return sorted(found, key=lambda result: (result.work, result.contestant, result.repeat))

    def session(self) -> dict[str, Any]:
        """Return facts on the machine and the environments; empty before the first run."""
        path = self.folder / SESSION
        if not path.is_file():
            return {}
        session: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return session

    @property
    def machine(self) -> Path:
        """Path of the record of the machine, which `summary.merge` takes."""
        return self.folder / MACHINE

    def keep_session(self, session: Mapping[str, Any]) -> None:
        """Store the facts that `session` returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(session, indent=2, sort_keys=True)
        (self.folder / SESSION).write_text(text + "\n", encoding="utf-8")

    def _path(self, work: str, contestant: str, repeat: int) -> Path:
        return self.folder / work / f"{contestant}-{repeat}.json"
