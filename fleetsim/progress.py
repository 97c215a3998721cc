"""Progress of a run: a live line on a terminal or in a notebook, elsewhere a line now and then.

The time of the host is read for display alone, and changes no result.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from fleetsim.contracts import Progress
from fleetsim.host import notebook
from fleetsim.host.notebook import CellOutput
from fleetsim.host.plain_console import PlainConsole
from fleetsim.units import S_PER_DAY, S_PER_HOUR, S_PER_MINUTE

if TYPE_CHECKING:
    from fleetsim.engine.servers.stop import StopSettings
    from fleetsim.scenario import Scenario


LOGGED_EVERY_S = 30.0
"""Seconds of host time between lines where there is no terminal."""


@contextmanager
def watch(
    scenario: Scenario, console: PlainConsole | None, log: Callable[[str], None]
) -> Iterator[Callable[[Progress], None]]:
    """Show round, virtual time, accuracy and joules: live, or as lines to `log` now and then.

    Nothing without a console.
    """
    if console is None:
        yield lambda progress: None
        return
    if not console.is_terminal:
        yield logged(scenario, log)
        return
    with bar(scenario.name, console) as update:
        yield lambda progress: update(
            fraction_done(scenario.stop, progress), progress_text(progress)
        )


@contextmanager
def watch_from_python(
    scenario: Scenario, *, is_shown: bool, is_forced: bool
) -> Iterator[Callable[[Progress], None]]:
    """Show a run that was started from Python: in the notebook, or live on stderr.

    A display that is not forced is left out where stderr is no terminal. A forced one then writes
    a line every half a minute.
    """
    console = PlainConsole(stderr=True, emoji=False)
    if is_shown and notebook.is_active():
        with _watch_in_notebook(scenario) as show:
            yield show
    elif is_shown and (is_forced or console.is_terminal):

        def log(line: str) -> None:
            console.print(line, highlight=False, soft_wrap=True, markup=False)

        with watch(scenario, console, log) as show:
            yield show
    else:
        yield lambda progress: None


@contextmanager
def _watch_in_notebook(scenario: Scenario) -> Iterator[Callable[[Progress], None]]:
    """Show a bar in the output of the cell; at the end it keeps the last state."""
    output = CellOutput()
    begins = last = bar_html(0.0, f"{scenario.name}  begins")
    output.show(last)

    def show(progress: Progress) -> None:
        nonlocal last
        done = fraction_done(scenario.stop, progress)
        last = bar_html(done, f"{scenario.name}  {progress_text(progress)}")
        output.show(last)

    try:
        yield show
        if last == begins:  # a complete run is returned without a callback
            last = bar_html(1.0, f"{scenario.name}  no new rounds")
    finally:
        output.show(last, is_last=True)


def bar_html(done_fraction: float, *lines: str) -> str:
    """Return a bar with text beside and below it, as HTML.

    >>> bar_html(0.25, "a < b")
    '<div style="font-family: monospace"><progress value="0.250"></progress> a &lt; b</div>'
    """
    text = "<br>".join(html.escape(line).replace("  ", "&nbsp; ") for line in lines)
    bar = f'<progress value="{done_fraction:.3f}"></progress>'
    return f'<div style="font-family: monospace">{bar} {text}</div>'


def logged(
    scenario: Scenario,
    log: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[Progress], None]:
    """Return a display that writes a line at most every half a minute of the clock."""
    write = _now_and_then(log, clock)

    def show(progress: Progress) -> None:
        done = fraction_done(scenario.stop, progress)
        write(f"{scenario.name}: {done:.0%}  {progress_text(progress)}")

    return show


def _now_and_then(log: Callable[[str], None], clock: Callable[[], float]) -> Callable[[str], None]:
    due_s = clock() + LOGGED_EVERY_S

    def write(line: str) -> None:
        nonlocal due_s
        if clock() >= due_s:
            due_s = clock() + LOGGED_EVERY_S
            log(line)

    return write


@contextmanager
def bar(
    name: str,
    console: PlainConsole,
    *,
    total: float = 1.0,
    log: Callable[[str], None] = lambda line: None,
) -> Iterator[Callable[[float, str], None]]:
    """Show a live line with what is done and its state, or lines to `log` now and then.

    Call the yielded function with both as they change.
    """
    if not console.is_terminal:
        write = _now_and_then(log, time.monotonic)
        yield lambda done, state: write(f"{name} {done:.4g} of {total:.4g}  {state}")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as live:
        line = live.add_task(name, total=total, state="")
        yield lambda done, state: live.update(line, completed=done, state=state)


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
        + ("" if progress.epsilon is None else f"  epsilon {progress.epsilon:.2f}")
        + ("" if progress.num_workers is None else f"  workers {progress.num_workers}")
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
