"""Progress of a run: a live line on a terminal, elsewhere a line every half a minute.

The time of the host is read for display alone, and changes no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from fleetsim.contracts import Progress
from fleetsim.units import S_PER_DAY, S_PER_HOUR, S_PER_MINUTE

if TYPE_CHECKING:
    from fleetsim.engine.servers.stop import StopSettings
    from fleetsim.scenario import Scenario


LOGGED_EVERY_S = 30.0
"""Seconds of host time between lines where there is no terminal."""


@contextmanager
def watch(
    scenario: Scenario, console: Console, log: Callable[[str], None]
) -> Iterator[Callable[[Progress], None]]:
    """Show round, virtual time, accuracy and joules: live, or as lines to `log` now and then."""
    if not console.is_terminal:
        yield logged(scenario, log)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        line = bar.add_task(scenario.name, total=1.0, state="")

        def show(progress: Progress) -> None:
            bar.update(
                line,
                completed=fraction_done(scenario.stop, progress),
                state=progress_text(progress),
            )

        yield show


def logged(
    scenario: Scenario,
    log: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[Progress], None]:
    """Return a display that writes a line at most every half a minute of the clock."""
    due_s = clock() + LOGGED_EVERY_S

    def show(progress: Progress) -> None:
        nonlocal due_s
        if clock() < due_s:
            return
        due_s = clock() + LOGGED_EVERY_S
        done = fraction_done(scenario.stop, progress)
        log(f"{scenario.name}: {done:.0%}  {progress_text(progress)}")

    return show


@contextmanager
def steps(names: Sequence[str], console: Console) -> Iterator[Callable[[str], None]]:
    """Show a live line with the step in progress; call the yielded function as each begins."""
    if not console.is_terminal:
        yield lambda name: None
        return
    with Bar(TextColumn("{task.description}"), BarColumn(), console=console, transient=True) as bar:
        line = bar.add_task("", total=len(names))
        yield lambda name: bar.update(line, description=name, completed=names.index(name))


@contextmanager
def share(name: str, console: Console) -> Iterator[Callable[[float], None]]:
    """Show a live line with the share that is done; call the yielded function as it grows."""
    if not console.is_terminal:
        yield lambda done_fraction: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        line = bar.add_task(name, total=1.0)
        yield lambda done_fraction: bar.update(line, completed=done_fraction)


def fraction_done(stop: StopSettings, progress: Progress) -> float:
    """Return the share of a run that is done, by the stop rule that is nearest."""
    parts = [progress.now_s / stop.time_s]
    if stop.rounds is not None:
        parts.append(progress.round / stop.rounds)
    if stop.energy_j is not None:
        parts.append(progress.energy_total_j / stop.energy_j)
    if stop.accuracy is not None and progress.accuracy is not None:
        parts.append(progress.accuracy / stop.accuracy)
    return min(1.0, max(parts))


def progress_text(progress: Progress) -> str:
    """Return the state of a run in one line."""
    accuracy = "-" if progress.accuracy is None else f"{progress.accuracy:.3f}"
    return (
        f"round {progress.round}  {duration_text(progress.now_s)}  accuracy {accuracy}"
        f"  {progress.energy_total_j / 1e3:.1f} kJ"
        f"  {progress.num_delivered}/{progress.num_selected} delivered"
    )


def duration_text(seconds: float) -> str:
    """Return virtual time as text.

    >>> duration_text(93784.2)
    '1d 02:03:04'
    """
    days, rest = divmod(int(seconds), int(S_PER_DAY))
    hours, rest = divmod(rest, int(S_PER_HOUR))
    minutes, whole_s = divmod(rest, int(S_PER_MINUTE))
    clock = f"{hours:02d}:{minutes:02d}:{whole_s:02d}"
    return f"{days}d {clock}" if days else clock
