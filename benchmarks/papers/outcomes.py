"""Figures of the runs that are compared with papers, one line of a file each.

Runs take hours and hundreds of megabytes; their figures take a line. The file lies beside the page,
so that readers can see the values behind its means, and write the page without the runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchmarks.papers.measures import MEASURES
from benchmarks.papers.prices import Price, price
from fleetsim.errors import FleetsimError
from fleetsim.record import atomic_files
from fleetsim.record.saved_run import Run

_WAY_OUT = "make its folder writable, then run the command again"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of one run."""

    rounds: int
    measures: Mapping[str, float | None]
    """Values by name in `MEASURES`; None where the run has none."""
    prices: Mapping[float, Price | None]
    """Prices by accuracy; None where it was never reached."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Identity of a run."""

    experiment: str
    """Name of the scenario."""
    changes: tuple[str, ...]
    """Changes to the scenario, `KEY=VALUE` each."""
    seed: int
    content_hash: str
    """`definition_hash` of the scenario with these changes; lines with another hash are not
    used."""


def outcome_of(run: Run, targets: Sequence[float]) -> Outcome:
    """Compute all figures of a run, with the prices of these accuracies."""
    measures = {name: measure.of(run) for name, measure in MEASURES.items()}
    return Outcome(
        len(run.rounds),
        {name: None if value is None else float(value) for name, value in measures.items()},
        {target: price(run, target) for target in targets},
    )


_ORIGIN, _OUTCOME = TypeAdapter(Origin), TypeAdapter(Outcome)


class OutcomeFile:
    """File of outcomes, to which new ones are added."""

    def __init__(self, path: Path) -> None:
        """Read the file if it exists.

        Raises:
            FleetsimError: a line of the file was not written by `add`.
        """
        self.path = path
        self._kept: dict[str, tuple[Origin, Outcome]] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                origin = _ORIGIN.validate_json(line)
                outcome = _OUTCOME.validate_json(line)
            except ValidationError as fault:
                says = " ".join(str(fault).split())
                raise FleetsimError(
                    f"{path}, line {number}: not an outcome ({says}); delete the line, then its "
                    "run is made again"
                ) from fault
            self._kept[origin.content_hash] = origin, outcome

    def find(self, content_hash: str, targets: Sequence[float]) -> Outcome | None:
        """Return the outcome of a scenario; None if it is missing or lacks a figure."""
        if content_hash not in self._kept:
            return None
        _, outcome = self._kept[content_hash]
        is_whole = outcome.measures.keys() >= MEASURES.keys() and set(targets) <= set(
            outcome.prices
        )
        return outcome if is_whole else None

    def add(self, origin: Origin, outcome: Outcome) -> None:
        """Add an outcome; it is on disk when this returns."""
        self._kept[origin.content_hash] = origin, outcome
        kept = [self._kept[key] for key in sorted(self._kept, key=self._place)]
        lines = [
            json.dumps(asdict(origin) | _OUTCOME.dump_python(one, mode="json"), allow_nan=False)
            for origin, one in kept
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(
            self.path, "".join(f"{line}\n" for line in lines).encode(), hint=_WAY_OUT
        )

    def _place(self, content_hash: str) -> tuple[str, tuple[str, ...], int, str]:
        origin, _ = self._kept[content_hash]
        return origin.experiment, origin.changes, origin.seed, content_hash
