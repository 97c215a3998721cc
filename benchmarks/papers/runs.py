"""Runs of the studies: several at a time, resumed where they stopped, none made twice."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.papers.outcomes import Origin, Outcome, OutcomeFile, outcome_of
from benchmarks.papers.studies import PRICE_TARGETS, Arm, Study
from fleetsim.contracts import Progress
from fleetsim.record.saved_run import Run, open_run
from fleetsim.scenario import Scenario, load

_REPORT_PERIOD_S = 30.0
_MANIFEST = "manifest.json"


@cache
def _scenario(name: str, changes: tuple[str, ...], seed: int) -> Scenario:
    """Load a scenario; once, as its hash is asked for again and again."""
    return load(name, changes, seed=seed)


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run of a study."""

    study: Study
    arm: Arm
    seed: int
    rounds: int | None
    """Number of rounds; None: the scenario's own."""

    @property
    def name(self) -> str:
        """Name in printed lines."""
        return f"{self.study.name}, {self.arm.name}, seed {self.seed}"

    def scenario(self) -> Scenario:
        """Load its scenario.

        Raises:
            ScenarioError: the bundled scenario does not take the changes.
        """
        return _scenario(self.study.scenario, self._changes, self.seed)

    def origin(self) -> Origin:
        """Return the identity of the finished run."""
        found = self.scenario().content_hash
        return Origin(self.study.scenario, self._changes, self.seed, found)

    @property
    def _changes(self) -> tuple[str, ...]:
        rounds = () if self.rounds is None else (f"stop.rounds={self.rounds}",)
        return (*self.study.changes, *self.arm.changes, *rounds)

    def folder(self, home: Path) -> Path:
        """Return the folder of the run, which differs for each scenario."""
        key = self.scenario().content_hash[:8]
        return (
            home
            / (self.study.folder or self.study.name)
            / f"{self.arm.name.replace(',', '').replace(' ', '-')}-{self.seed}-{key}"
        )


def runs_of(studies: Iterable[Study], seeds: Sequence[int], *, is_short: bool) -> list[StudyRun]:
    """Return all runs, seed by seed, so that the first seed of all studies comes first."""
    wanted = list(studies)
    return [
        StudyRun(study, arm, seed, study.short_rounds if is_short else None)
        for seed in seeds
        for study in wanted
        for arm in study.arms
    ]


def finished(planned: StudyRun, home: Path) -> Run | None:
    """Return the finished run; None if it is missing or not finished."""
    folder = planned.folder(home)
    if not (folder / _MANIFEST).exists():
        return None
    run = open_run(folder)
    return run if run.manifest.status == "done" else None


def outcome(planned: StudyRun, home: Path, outcomes: OutcomeFile) -> Outcome | None:
    """Return the outcome from the file or from the finished run, which is then added."""
    origin = planned.origin()
    known = outcomes.find(origin.content_hash, PRICE_TARGETS)
    if known is None and (run := finished(planned, home)) is not None:
        known = outcome_of(run, PRICE_TARGETS)
        outcomes.add(origin, known)
    return known


def make(wanted: Sequence[StudyRun], home: Path, outcomes: OutcomeFile, *, jobs: int) -> None:
    """Make the runs whose outcome the file lacks, `jobs` at a time, and print the progress.

    Each run trains in one process: several runs at a time use the cores better than several
    processes of one run, and the results are the same bytes.

    Raises:
        FleetsimError: a run cannot be made; finished runs are kept.
    """
    # Studies may share a run.
    by_folder = {one.folder(home): one for one in wanted}
    missing = [one for one in by_folder.values() if outcome(one, home, outcomes) is None]
    print(
        f"{len(by_folder) - len(missing)} of {len(by_folder)} runs are known; new ones go to "
        f"{home}, their figures to {outcomes.path}",
        flush=True,
    )
    if not missing:
        return
    began_s, done = time.monotonic(), 0
    # Spawned, not forked: torch has threads.
    context = multiprocessing.get_context("spawn")
    rounds = context.Array("q", len(missing), lock=False)
    with ProcessPoolExecutor(
        min(jobs, len(missing)), mp_context=context, initializer=_begin, initargs=(rounds,)
    ) as pool:
        left: dict[Future[str], int] = {
            pool.submit(_one, one, home, index): index for index, one in enumerate(missing)
        }
        try:
            while left:
                ended, _ = wait(left, timeout=_REPORT_PERIOD_S, return_when=FIRST_COMPLETED)
                for future in ended:
                    outcome(missing[left.pop(future)], home, outcomes)
                    done += 1
                    print(f"[{done}/{len(missing)}] {future.result()}", flush=True)
                if not ended:
                    minutes = (time.monotonic() - began_s) / 60
                    begun = (index for index in left.values() if rounds[index])
                    now = ", ".join(f"{missing[i].name}: round {rounds[i]}" for i in begun)
                    print(f"  after {minutes:.0f} min at: {now or 'the first rounds'}", flush=True)
        except BaseException:
            for future in left:
                future.cancel()
            raise


_SHARED: dict[str, Any] = {}
"""State of a process that makes runs: "rounds", the current round of each run, shared memory."""


def _begin(rounds: Any) -> None:
    """Initialise a process that makes runs."""
    _SHARED["rounds"] = rounds
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent process has been killed, which nothing else would notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # At once: a run survives a kill at any moment.
        os._exit(1)


def _one(planned: StudyRun, home: Path, index: int) -> str:
    """Make one run in a process of its own; return a summary."""
    # Torch is imported here, so that writing the page does not need it.
    from fleetsim.simulate import run  # noqa: PLC0415

    scenario, folder = planned.scenario(), planned.folder(home)
    began_s = time.monotonic()

    def show(progress: Progress) -> None:
        _SHARED["rounds"][index] = progress.round

    folder.parent.mkdir(parents=True, exist_ok=True)
    done = run(
        scenario,
        out=folder,
        workers=1,
        resume=(folder / _MANIFEST).exists(),
        on_progress=show,
    )
    accuracy = done.rounds["accuracy"].dropna()
    final = f", {100 * accuracy.iloc[-1]:.1f} % in the end" if len(accuracy) else ""
    return f"{planned.name}: {len(done.rounds)} rounds{final}, {time.monotonic() - began_s:.0f} s"
