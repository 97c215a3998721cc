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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetsim import cli, progress
from fleetsim.contracts import Evaluation, Job, JobResult, Parameters, Progress, Trainer
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


class Stopwatch:
    """Trainer that times the methods of another; the rest is passed through."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self.training_s = 0.0
        self.evaluation_s = 0.0

    def submit(self, job: Job) -> int:
        """Submit a job."""
        with self._training():
            return self._trainer.submit(job)

    def start(self, tickets: Sequence[int]) -> None:
        """Start several jobs."""
        with self._training():
            self._trainer.start(tickets)

    def results(self, tickets: Sequence[int]) -> list[JobResult]:
        """Return the results of several jobs."""
        with self._training():
            return self._trainer.results(tickets)

    def cancel(self, ticket: int) -> None:
        """Cancel a job."""
        with self._training():
            self._trainer.cancel(ticket)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Evaluate a model on the server's test set."""
        with self._evaluation():
            return self._trainer.evaluate(parameters)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Evaluate a model on the validation samples of selectors."""
        with self._evaluation():
            return self._trainer.validate(parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    @contextmanager
    def _training(self) -> Iterator[None]:
        began_s = time.monotonic()
        yield
        self.training_s += time.monotonic() - began_s

    @contextmanager
    def _evaluation(self) -> Iterator[None]:
        began_s = time.monotonic()
        yield
        self.evaluation_s += time.monotonic() - began_s


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
        return Parts(**parts | {"learning": replace(learning, trainer=self._stopwatch)})

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
        times.training_s.append(self._stopwatch.training_s)
        times.evaluation_s.append(self._stopwatch.evaluation_s)
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
