"""Makes the runs of the studies: several at once, each where it stopped, none twice."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.outcomes import Book, Origin, Outcome, outcome_of
from benchmarks.papers.studies import PRICE_TARGETS, Arm, Study
from fleetsim.contracts import Progress
from fleetsim.record.saved_run import Run, open_run
from fleetsim.scenario import Scenario, load

_LOOK_EVERY_S = 30.0
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Order:
    """One run that is wanted."""

    study: Study
    arm: Arm
    seed: int
    rounds: int | None
    """Instead of the scenario's own."""

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{self.study.name}, {self.arm.name}, seed {self.seed}"

    def scenario(self) -> Scenario:
        """Its scenario.

        Raises:
            ScenarioError: the bundled scenario does not take the changes.
        """
        return load(self.study.scenario, list(self._changes), seed=self.seed)

    def origin(self) -> Origin:
        """What it is known by when it has been made."""
        found = self.scenario().content_hash
        return Origin(self.study.scenario, self._changes, self.seed, found)

    @property
    def _changes(self) -> tuple[str, ...]:
        rounds = () if self.rounds is None else (f"stop.rounds={self.rounds}",)
        return (*self.study.changes, *self.arm.changes, *rounds)

    def folder(self, home: Path) -> Path:
        """Where the run lies; another scenario lies elsewhere."""
        key = self.scenario().content_hash[:8]
        return (
            home
            / (self.study.folder or self.study.name)
            / f"{self.arm.name.replace(',', '').replace(' ', '-')}-{self.seed}-{key}"
        )


def orders(studies: Iterable[Study], seeds: Sequence[int], *, is_short: bool) -> list[Order]:
    """All runs, seed by seed, so that a first look at everything comes first."""
    wanted = list(studies)
    return [
        Order(study, arm, seed, study.short_rounds if is_short else None)
        for seed in seeds
        for study in wanted
        for arm in study.arms
    ]


def finished(order: Order, home: Path) -> Run | None:
    """The run, if it is there and done."""
    folder = order.folder(home)
    if not (folder / _MANIFEST).exists():
        return None
    run = open_run(folder)
    return run if run.manifest.status == "done" else None


def outcome(order: Order, home: Path, book: Book) -> Outcome | None:
    """What came out, by the book, or by the run if that is there and done; the book then has it."""
    origin = order.origin()
    known = book.find(origin.content_hash, PRICE_TARGETS)
    if known is None and (run := finished(order, home)) is not None:
        known = outcome_of(run, PRICE_TARGETS)
        book.add(origin, known)
    return known


def make(wanted: Sequence[Order], home: Path, book: Book, *, jobs: int) -> None:
    """Make those whose outcome the book lacks, `jobs` at a time, and say how it goes.

    Every run trains in one process: several runs side by side use the cores better than several
    processes of one run do, and the results are the same bytes.

    Raises:
        FleetsimError: a run cannot be made; those that were done stay.
    """
    # Studies may share a run.
    by_folder = {order.folder(home): order for order in wanted}
    missing = [order for order in by_folder.values() if outcome(order, home, book) is None]
    print(
        f"{len(by_folder) - len(missing)} of {len(by_folder)} runs are known; new ones go to "
        f"{home}, their figures to {book.path}",
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
            pool.submit(_one, order, home, index): index for index, order in enumerate(missing)
        }
        try:
            while left:
                ended, _ = wait(left, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
                for future in ended:
                    outcome(missing[left.pop(future)], home, book)
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
"""In a process that makes runs: "rounds", how far each order is, as the process that waits sees."""


def _begin(rounds: Any) -> None:
    """Begin a process that makes runs."""
    _SHARED["rounds"] = rounds
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the one that began it has been killed: nobody else would."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # At once, amid whatever it does: a run survives a kill at any moment.
        os._exit(1)


def _one(order: Order, home: Path, index: int) -> str:
    """In a process of its own: one run; returns what is printed of it."""
    # Torch is imported here, not where the page is written.
    from fleetsim.simulate import run  # noqa: PLC0415

    scenario, folder = order.scenario(), order.folder(home)
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
    return f"{order.name}: {len(done.rounds)} rounds{final}, {time.monotonic() - began_s:.0f} s"
