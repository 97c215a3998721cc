"""Command `fleetsim run` with timing of its rounds and of its trainer.

    python -m benchmarks.timed_run TIMES.json SCENARIO [option of fleetsim run]...

It runs `fleetsim.cli.main` with the given arguments and replaces two parts. The progress line is
replaced by a callback that notes the end of each round. The trainer is wrapped in a stopwatch, so
that the host time outside training and evaluation is known. That time is the cost of the simulator
itself: clock, channel, meters, selection, aggregation, recording.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from fleetsim import cli, progress
from fleetsim.contracts import Progress, Trainer
from fleetsim.engine.servers import parts as server_parts
from fleetsim.engine.servers.global_model import Learning
from fleetsim.engine.servers.parts import Parts


@dataclass
class Times:
    """Measured times; each list has one entry per round."""

    began_at_s: float = 0.0
    """Start of the first round, after the set-up."""
    round_ended_at_s: list[float] = field(default_factory=list)
    training_s: list[float] = field(default_factory=list)
    """Seconds spent in the trainer on jobs, since the start."""
    evaluation_s: list[float] = field(default_factory=list)
    """Seconds spent on evaluations, since the start."""
    num_steps: list[int] = field(default_factory=list)
    """Steps of local SGD that were computed since the start."""
    accuracy: float | None = None
    """Accuracy of the last evaluation."""


_TIMED = {
    **dict.fromkeys(("submit", "start", "results", "cancel"), "training"),
    **dict.fromkeys(("evaluate", "validate"), "evaluation"),
}
"""Methods of a trainer that are timed, and what they do."""


class Stopwatch:
    """Trainer that times the methods of another; the rest is passed through."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.seconds = {"training": 0.0, "evaluation": 0.0}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._trainer, name)
        return partial(self._timed, _TIMED[name], found) if name in _TIMED else found

    def _timed(self, what: str, method: Callable[..., Any], *arguments: Any) -> Any:
        began_s = time.monotonic()
        result = method(*arguments)
        self.seconds[what] += time.monotonic() - began_s
        return result


class RunTimer:
    """Timer that puts the stopwatch into a run and reads it after each round."""

    def __init__(self) -> None:
        self.times = Times()
        self._stopwatch: Stopwatch | None = None

    def parts(self, **parts: Any) -> Parts:
        """Return the parts of a server with a stopwatch around the trainer."""
        learning: Learning = parts["learning"]
        self._stopwatch = Stopwatch(learning.trainer)
        self.times.began_at_s = time.monotonic()
        return Parts(
            **parts | {"learning": replace(learning, trainer=cast(Trainer, self._stopwatch))}
        )

    @contextmanager
    def watch(self, *_: Any) -> Iterator[Callable[[Progress], None]]:
        """Replace the command's progress line."""
        yield self.round_ended

    def round_ended(self, progress: Progress) -> None:
        """Read the clocks at the end of a round."""
        if self._stopwatch is None:
            raise RuntimeError("a round ended before the server was built")
        times = self.times
        times.round_ended_at_s.append(time.monotonic())
        times.training_s.append(self._stopwatch.seconds["training"])
        times.evaluation_s.append(self._stopwatch.seconds["evaluation"])
        times.num_steps.append(int(self._stopwatch.num_steps))
        times.accuracy = progress.accuracy


def main() -> None:
    """Run the command, then write the times; exit as the command does."""
    target, *arguments = sys.argv[1:]
    timer = RunTimer()
    # Before the command imports the code that builds a server, and torch: that is timed, too.
    server_parts.Parts = timer.parts  # type: ignore[assignment, misc]
    progress.watch = timer.watch  # type: ignore[assignment]
    sys.argv = ["fleetsim", "run", *arguments]
    try:
        cli.main()
    finally:
        Path(target).write_text(json.dumps(asdict(timer.times)), encoding="utf-8")


if __name__ == "__main__":
    main()
