"""Progress of a study: a live display on a terminal or in a notebook, else a line every 30 s."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from fleetsim.host import notebook
from fleetsim.host.notebook import CellOutput
from fleetsim.host.plain_console import PlainConsole
from fleetsim.progress import bar_html, duration_text
from fleetsim.studies.execution import Watcher
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_process import RunProgress
from fleetsim.studies.run_store import SetAside

_LINE_PERIOD_S = 30.0
_MOST_NAMED = 4
_ENDING = "waiting for the end of the rounds under way; interrupt again to end at once"


class Reckoning:
    """Counts of a study under way, and an estimate of the time left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self.num_done = self.num_failed = self._num_made = 0
        self._num_missing = 0
        self.names: dict[str, str] = {}
        self.elsewhere: set[str] = set()
        """Keys of the runs that other processes write."""
        self.under_way: dict[str, RunProgress] = {}
        """Last progress of every run that has told any, by key."""

    def begin(self, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Begin to count."""
        self.num_done, self._num_missing = num_done, len(missing)
        self._began_s = self._clock()

    @property
    def num_runs(self) -> int:
        """Number of runs in all."""
        return self.num_done - self._num_made + self._num_missing

    def end(self, planned: PlannedRun, *, is_done: bool) -> None:
        """Count a run that has ended for good."""
        self.under_way.pop(planned.key, None)
        self.elsewhere.discard(planned.key)
        if is_done:
            self.num_done += 1
            self._num_made += 1
        else:
            self.num_failed += 1

    def fail(self, planned: PlannedRun, *, is_final: bool) -> None:
        """Count a failed run if that is final; one that is repeated is not under way until then."""
        if is_final:
            self.end(planned, is_done=False)
        else:
            self.under_way.pop(planned.key, None)

    @property
    def left_s(self) -> float | None:
        """Estimated seconds of host time until the end; None without any progress yet."""
        fractions = sum(each.fraction for each in self.under_way.values())
        work = self._num_made + self.num_failed + fractions
        if work <= 0.0:
            return None
        return (self._clock() - self._began_s) * max(0.0, self._num_missing - work) / work

    def line(self) -> str:
        """Return the state in one line."""
        left = f", about {duration_text(self.left_s)} left" if self.left_s else ""
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        others = f", {len(self.elsewhere)} made by another process" if self.elsewhere else ""
        return f"{self.num_done} of {self.num_runs} runs done{failed}{others}{left}"

    def run_line(self, key: str) -> str:
        """Return the state of a run under way."""
        last = self.under_way.get(key)
        if last is None:
            return "begins"
        accuracy = "-" if last.accuracy is None else f"{last.accuracy:.3f}"
        return f"round {last.round}  {duration_text(last.now_s)}  accuracy {accuracy}"


class Lines:
    """Progress as lines: each run that ends, and the state every 30 s."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._print, self._clock = say, clock
        self._state = Reckoning(clock)
        self._printed_s = clock()

    def checking(self, num_checked: int, num_complete: int) -> None:
        """Say how many tables are compared if 30 s have passed."""
        if self._clock() - self._printed_s >= _LINE_PERIOD_S:
            self._printed_s = self._clock()
            self._print(_checking_line(num_checked, num_complete))

    def begin(self, *, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Say how many runs are complete and missing."""
        self._state.begin(num_done, missing)
        self._print(f"{num_done} of {self._state.num_runs} runs are complete, {len(missing)} to do")

    def set_aside(self, planned: PlannedRun, found: SetAside) -> None:
        """Say that a run was damaged."""
        self._print(_aside_line(planned, found))

    def started(self, planned: PlannedRun) -> None:
        """Remember the name of a run."""
        self._state.names[planned.key] = planned.name
        self._state.elsewhere.discard(planned.key)

    def waiting(self, planned: PlannedRun) -> None:
        """Say that another process is writing a run."""
        self._state.elsewhere.add(planned.key)
        self._print(_waiting_line(planned))

    def progress(self, found: Sequence[RunProgress]) -> None:
        """Say the state if 30 s have passed."""
        self._state.under_way |= {each.key: each for each in found}
        if self._clock() - self._printed_s < _LINE_PERIOD_S:
            return
        self._printed_s = self._clock()
        keys = list(self._state.under_way)
        now = [f"{self._state.names[key]}: {self._state.run_line(key)}" for key in keys]
        more = f" and {len(now) - _MOST_NAMED} more" if len(now) > _MOST_NAMED else ""
        under_way = f"; {'; '.join(now[:_MOST_NAMED])}{more}" if now else ""
        self._print(f"{self._state.line()}{under_way}")

    def finished(self, planned: PlannedRun) -> None:
        """Say that a run is complete."""
        self._state.end(planned, is_done=True)
        self._print(f"[{self._state.num_done}/{self._state.num_runs}] {planned.name}")

    def failed(self, planned: PlannedRun, reason: str, *, is_final: bool) -> None:
        """Say why a run failed."""
        self._print(_failure_line(planned, reason, is_final=is_final))
        self._state.fail(planned, is_final=is_final)

    def ending(self) -> None:
        """Say that the runs under way end."""
        self._print(_ENDING)


class LiveDisplay(Lines):
    """Progress on a terminal: a bar for the study, one for every run under way, and messages."""

    def __init__(self, bar: Bar, console: PlainConsole) -> None:
        super().__init__(_printer(console))
        self._bar = bar
        self._whole = bar.add_task("study", total=None, state="")
        self._rows: dict[str, TaskID] = {}

    def checking(self, num_checked: int, num_complete: int) -> None:
        """Show how many tables are compared."""
        state = _checking_line(num_checked, num_complete)
        self._bar.update(self._whole, total=num_complete, completed=num_checked, state=state)

    def begin(self, *, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Show the bar of the study."""
        self._state.begin(num_done, missing)
        self._show()

    def started(self, planned: PlannedRun) -> None:
        """Prepare the bar of a run, which is shown from its first progress on."""
        super().started(planned)
        # A cluster takes more runs than it carries out at once.
        self._rows[planned.key] = self._bar.add_task(
            planned.name, total=1.0, state="", visible=False
        )

    def waiting(self, planned: PlannedRun) -> None:
        """Print that another process is writing a run, and remove its bar."""
        super().waiting(planned)
        self._remove(planned)

    def progress(self, found: Sequence[RunProgress]) -> None:
        """Move the bars."""
        self._state.under_way |= {each.key: each for each in found}
        for each in found:
            if each.key in self._rows:
                state = self._state.run_line(each.key)
                row = self._rows[each.key]
                self._bar.update(row, completed=each.fraction, visible=True, state=state)
        self._show()

    def finished(self, planned: PlannedRun) -> None:
        """Remove the bar of a complete run."""
        self._state.end(planned, is_done=True)
        self._remove(planned)

    def failed(self, planned: PlannedRun, reason: str, *, is_final: bool) -> None:
        """Print why a run failed, and remove its bar."""
        super().failed(planned, reason, is_final=is_final)
        self._remove(planned)

    def _remove(self, planned: PlannedRun) -> None:
        row = self._rows.pop(planned.key, None)
        # A run that another process has completed never began here.
        if row is not None:
            self._bar.remove_task(row)
        self._show()

    def _show(self) -> None:
        state = self._state
        completed = state.num_done + state.num_failed
        self._bar.update(self._whole, total=state.num_runs, completed=completed, state=state.line())


class NotebookDisplay(Lines):
    """Progress in the output of a cell: a bar, a line for every run under way, and messages."""

    def __init__(self, output: CellOutput, clock: Callable[[], float] = time.monotonic) -> None:
        self._messages: list[str] = []
        self._output = output
        super().__init__(self._messages.append, clock)

    def begin(self, *, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Show the bar."""
        self._state.begin(num_done, missing)
        self._show()

    def progress(self, found: Sequence[RunProgress]) -> None:
        """Show the state of the runs under way."""
        self._state.under_way |= {each.key: each for each in found}
        self._show()

    def finished(self, planned: PlannedRun) -> None:
        """Count a complete run."""
        self._state.end(planned, is_done=True)
        self._show()

    def close(self) -> None:
        """Show the last state."""
        self._show(is_last=True)

    def _show(self, *, is_last: bool = False) -> None:
        state = self._state
        ended = state.num_done + state.num_failed
        now = [f"{state.names[key]}: {state.run_line(key)}" for key in state.under_way]
        more = [f"and {len(now) - _MOST_NAMED} more"] if len(now) > _MOST_NAMED else []
        lines = [state.line(), *now[:_MOST_NAMED], *more, *self._messages[-_MOST_NAMED:]]
        bar = bar_html(ended / state.num_runs if state.num_runs else 1.0, *lines)
        self._output.show(bar, is_last=is_last)


def _failure_line(planned: PlannedRun, reason: str, *, is_final: bool) -> str:
    again = "failed" if is_final else "failed, and is repeated"
    return f"{planned.name} {again}: {reason}"


def _aside_line(planned: PlannedRun, found: SetAside) -> str:
    return (
        f"{planned.name} was damaged, and is carried out again; its folder is now {found.folder}:"
        f" {found.reason}"
    )


def _waiting_line(planned: PlannedRun) -> str:
    return f"{planned.name} is being made by another process; its result will be taken from there"


def _checking_line(num_checked: int, num_complete: int) -> str:
    return f"{num_checked} of {num_complete} runs that are there have been checked"


def _printer(console: PlainConsole) -> Callable[[str], None]:
    return partial(console.print, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def watch(console: PlainConsole) -> Iterator[Watcher]:
    """Show the progress of a study: live on a terminal, else as lines."""
    if not console.is_terminal:
        yield Lines(_printer(console))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Bar(*columns, console=console, transient=True) as bar:
        yield LiveDisplay(bar, console)


@contextmanager
def watch_from_python(*, is_forced: bool, is_shown: bool) -> Iterator[Watcher]:
    """Show a study that was started from Python: in the notebook, or live on stderr.

    A display that is not forced is left out where stderr is no terminal.
    """
    console = PlainConsole(stderr=True, emoji=False)
    if is_shown and notebook.is_active():
        display = NotebookDisplay(CellOutput())
        try:
            yield display
        finally:
            display.close()
    elif is_shown and (is_forced or console.is_terminal):
        with watch(console) as watcher:
            yield watcher
    else:
        yield Lines(lambda line: None)
