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
from fleetsim.report.quantities import some
from fleetsim.studies.execution import Watcher
from fleetsim.studies.planned_run import PlannedRun
from fleetsim.studies.run_process import RunProgress
from fleetsim.studies.run_store import SetAside

_LINE_PERIOD_S = 30.0
_MOST_NAMED = 4
_ENDING = "waiting for the end of the rounds under way; interrupt again to end at once"


class Lines:
    """Progress as lines: each run that ends, and the state every 30 s."""

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._print, self._clock = say, clock
        self._began_s = self._printed_s = clock()
        self._num_done = self._num_failed = self._num_made = self._num_missing = 0
        self._names: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        """Keys of the runs that other processes write."""
        self._under_way: dict[str, RunProgress] = {}
        """Last progress of every run that has told any, by key."""

    def checking(self, num_checked: int, num_complete: int) -> None:
        """Say how many tables are compared if 30 s have passed."""
        if self._clock() - self._printed_s >= _LINE_PERIOD_S:
            self._printed_s = self._clock()
            self._print(_checking_line(num_checked, num_complete))

    def begin(self, *, num_done: int, missing: Sequence[PlannedRun]) -> None:
        """Say how many runs are complete and missing."""
        self._num_done, self._num_missing = num_done, len(missing)
        self._began_s = self._clock()
        self._tell(f"{num_done} of {self._num_runs} runs are complete, {len(missing)} to do")
        self._show()

    def set_aside(self, planned: PlannedRun, aside: SetAside) -> None:
        """Say that a run was damaged."""
        self._print(
            f"{planned.name} was damaged, and is carried out again; its folder is now"
            f" {aside.folder}: {aside.reason}"
        )

    def started(self, planned: PlannedRun) -> None:
        """Remember the name of a run."""
        self._names[planned.key] = planned.name
        self._elsewhere.discard(planned.key)

    def waiting(self, planned: PlannedRun) -> None:
        """Say that another process is writing a run."""
        self._elsewhere.add(planned.key)
        self._print(
            f"{planned.name} is being made by another process; its result will be taken from there"
        )
        self._leave(planned)

    def progress(self, updates: Sequence[RunProgress]) -> None:
        """Say the state if 30 s have passed."""
        self._under_way |= {each.key: each for each in updates}
        if self._clock() - self._printed_s < _LINE_PERIOD_S:
            return
        self._printed_s = self._clock()
        now = [f"{self._names[key]}: {line}" for key, line in self._run_lines()]
        under_way = f"; {some(now, _MOST_NAMED)}" if now else ""
        self._print(f"{self._line()}{under_way}")

    def finished(self, planned: PlannedRun) -> None:
        """Say that a run is complete."""
        self._end(planned)
        self._num_done += 1
        self._num_made += 1
        self._tell(f"[{self._num_done}/{self._num_runs}] {planned.name}")
        self._leave(planned)

    def failed(self, planned: PlannedRun, reason: str, *, is_final: bool) -> None:
        """Say why a run failed."""
        again = "failed" if is_final else "failed, and is repeated"
        self._print(f"{planned.name} {again}: {reason}")
        if is_final:
            self._end(planned)
            self._num_failed += 1
        else:  # it is not under way until it begins again
            self._under_way.pop(planned.key, None)
        self._leave(planned)

    def ending(self) -> None:
        """Say that the runs under way end."""
        self._print(_ENDING)

    @property
    def _num_runs(self) -> int:
        return self._num_done - self._num_made + self._num_missing

    def _end(self, planned: PlannedRun) -> None:
        """Forget what a run that has ended for good told."""
        self._under_way.pop(planned.key, None)
        self._elsewhere.discard(planned.key)

    @property
    def _left_s(self) -> float | None:
        """Estimated seconds of host time until the end; None without any progress yet."""
        fractions = sum(each.fraction for each in self._under_way.values())
        work = self._num_made + self._num_failed + fractions
        if work <= 0.0:
            return None
        return (self._clock() - self._began_s) * max(0.0, self._num_missing - work) / work

    def _line(self) -> str:
        """Return the state in one line."""
        left = f", about {duration_text(self._left_s)} left" if self._left_s else ""
        failed = f", {self._num_failed} failed" if self._num_failed else ""
        others = f", {len(self._elsewhere)} made by another process" if self._elsewhere else ""
        return f"{self._num_done} of {self._num_runs} runs done{failed}{others}{left}"

    def _run_lines(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the state of every run under way."""
        for key, last in self._under_way.items():
            accuracy = "-" if last.accuracy is None else f"{last.accuracy:.3f}"
            yield key, f"round {last.round}  {duration_text(last.now_s)}  accuracy {accuracy}"

    def _tell(self, line: str) -> None:
        """Print what a bar shows anyway."""
        self._print(line)

    def _leave(self, planned: PlannedRun) -> None:
        """Show that a run is not carried out here any more."""
        self._show()

    def _show(self) -> None:
        """Show the state, where it is not told in lines."""


class _Bars(Lines):
    """Progress as a bar that moves, with messages beside it."""

    def _tell(self, line: str) -> None:
        pass

    def progress(self, updates: Sequence[RunProgress]) -> None:
        """Move the bar."""
        self._under_way |= {each.key: each for each in updates}
        self._show()


class LiveDisplay(_Bars):
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

    def started(self, planned: PlannedRun) -> None:
        """Prepare the bar of a run, which is shown from its first progress on."""
        super().started(planned)
        # A cluster takes more runs than it carries out at once.
        self._rows[planned.key] = self._bar.add_task(
            planned.name, total=1.0, state="", visible=False
        )

    def _leave(self, planned: PlannedRun) -> None:
        row = self._rows.pop(planned.key, None)
        # A run that another process has completed never began here.
        if row is not None:
            self._bar.remove_task(row)
        self._show()

    def _show(self) -> None:
        for key, line in self._run_lines():
            if key in self._rows:
                done = self._under_way[key].fraction
                self._bar.update(self._rows[key], completed=done, visible=True, state=line)
        completed = self._num_done + self._num_failed
        self._bar.update(self._whole, total=self._num_runs, completed=completed, state=self._line())


class NotebookDisplay(_Bars):
    """Progress in the output of a cell: a bar, a line for every run under way, and messages."""

    def __init__(self, output: CellOutput, clock: Callable[[], float] = time.monotonic) -> None:
        self._messages: list[str] = []
        self._output = output
        super().__init__(self._messages.append, clock)

    def close(self) -> None:
        """Show the last state."""
        self._show(is_last=True)

    def _show(self, *, is_last: bool = False) -> None:
        ended = self._num_done + self._num_failed
        now = [f"{self._names[key]}: {line}" for key, line in self._run_lines()]
        more = [f"and {len(now) - _MOST_NAMED} more"] if len(now) > _MOST_NAMED else []
        lines = [self._line(), *now[:_MOST_NAMED], *more, *self._messages[-_MOST_NAMED:]]
        bar = bar_html(ended / self._num_runs if self._num_runs else 1.0, *lines)
        self._output.show(bar, is_last=is_last)


def _checking_line(num_checked: int, num_complete: int) -> str:
    return f"{num_checked} of {num_complete} runs that are there have been checked"


def _printer(console: PlainConsole) -> Callable[[str], None]:
    return partial(console.print, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def watch(console: PlainConsole | None) -> Iterator[Watcher]:
    """Show the progress of a study: live on a terminal, else as lines; not without console."""
    if console is None:
        yield Lines(lambda line: None)
        return
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
    else:
        is_live = is_shown and (is_forced or console.is_terminal)
        with watch(console if is_live else None) as watcher:
            yield watcher
