"""The verb `study optimize`: a search over keys of a scenario, and its page."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetsim import bundled
from fleetsim.cli.scenario_options import changes
from fleetsim.cli.terminal import command_line, console, ended, say, tell

if TYPE_CHECKING:
    from fleetsim.studies.search.trials import Trial


def optimize(
    search: Annotated[str, lambda: bundled.names("searches")],
    *,
    trials: int | None = None,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    home: Path = Path("runs"),
    workers: int | None = None,
    plugin: list[str] | None = None,
    timeout_s: float | None = None,
) -> None:
    r"""Search over keys of a scenario for the lowest costs, and write the page of the search.

    Trials are chosen with Optuna (pip install 'fleetsim\[optimize]').

    After an interrupt, or with more trials, the same trials follow as without.

    Exit code 1: no trial is complete.
    """
    from fleetsim.scenario import scenario_warnings
    from fleetsim.studies.display import watch
    from fleetsim.studies.run_store import RunStore
    from fleetsim.studies.search import page, searching
    from fleetsim.studies.search.sampling import domains
    from fleetsim.studies.search.search_file import load_search
    from fleetsim.studies.search.trials import best_of

    given = [] if trials is None else [f"trials={trials}"]
    loaded = load_search(search, changes([*(set_ or ()), *given], unset), plugin)
    domains(loaded)
    study = loaded.scenario
    for line in scenario_warnings(study.runs[0].scenario, train=study.settings.train):
        say(f"warning: {line}")

    def show(trial: Trial) -> None:
        tell("; ".join(f"{name} {text}" for name, text in page.row(loaded, trial).items() if text))

    store = RunStore(home)
    backend = searching.KeptProcesses(workers or os.cpu_count() or 1)
    measure = searching.measured_by_runs(loaded, store, backend, partial(watch, console), timeout_s)
    folder = store.study_folder(study.settings.name)
    try:
        made = searching.make_trials(loaded, folder, measure, show)
    except KeyboardInterrupt as interrupt:
        message = f": complete runs are kept; go on with: {command_line()}"
        raise ended(interrupt, message) from interrupt
    finally:
        backend.end()
    best = best_of(made, loaded.settings.objective)
    tell(page.finding(loaded, made))
    if best is not None:
        tell(f"run it with: {page.command(loaded, best)}")
    tell(f"search: {page.write_page(loaded, made, folder)}")
    if best is None:
        raise typer.Exit(1)
