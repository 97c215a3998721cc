"""The verb `study optimize`: a search over keys of a scenario, and its page."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetsim.cli import completion
from fleetsim.cli.run_study import HomeOption, JobsOption, TimeoutOption
from fleetsim.cli.scenario_options import PluginOption
from fleetsim.cli.terminal import console, ended, say, tell

if TYPE_CHECKING:
    from fleetsim.studies.search.trials import Trial

_FAILED = 1


def optimize(
    search: Annotated[
        str,
        typer.Argument(
            metavar="SEARCH",
            help="A YAML file or the name of a bundled search.",
            autocompletion=completion.searches,
        ),
    ],
    trials: Annotated[
        int | None,
        typer.Option(help="Number of trials in all; replaces that of the file.", min=1, max=10_000),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key of the search file, such as seeds=[1,2]; may be given many times.",
        ),
    ] = None,
    home: HomeOption = Path("runs"),
    jobs: JobsOption = None,
    plugin: PluginOption = None,
    timeout: TimeoutOption = None,
) -> None:
    r"""Search over keys of a scenario for the lowest costs, and write the page of the search.

    Trials are chosen with Optuna (pip install 'fleetsim\[optimize]').

    After an interrupt, or with more trials, the same trials follow as without.

    Exit code 1: no trial is complete.
    """
    from fleetsim.scenario import scenario_warnings
    from fleetsim.studies.display import watch
    from fleetsim.studies.search import page
    from fleetsim.studies.search.sampling import require_optuna
    from fleetsim.studies.search.searching import (
        KeptProcesses,
        SearchStore,
        measured_by_runs,
    )
    from fleetsim.studies.search.searching import (
        search as make_trials,
    )
    from fleetsim.studies.search.space import load_space

    changes = [*(set_ or ()), *([] if trials is None else [f"trials={trials}"])]
    space = load_space(search, changes, plugin=plugin)
    settings, version = space.settings, require_optuna(space.source)
    for line in scenario_warnings(space.original, train=settings.train):
        say(f"warning: {line}")

    def show(trial: Trial, before: Sequence[Trial]) -> None:
        tell(page.described(settings, trial))

    store, backend = SearchStore(home), KeptProcesses(jobs or os.cpu_count() or 1)
    folder = store.study_folder(settings.name)
    measure = measured_by_runs(space, store, backend, partial(watch, console), timeout_s=timeout)
    try:
        made = make_trials(space, folder, measure, num_trials=settings.trials, on_trial=show)
    except KeyboardInterrupt as interrupt:
        again = shlex.join(["fleetsim", *sys.argv[1:]])
        raise ended(interrupt, f": complete runs are kept; go on with: {again}") from interrupt
    finally:
        backend.end()
    path = page.write_page(space, made, folder, optuna=version)
    tell(page.finding(space, made))
    best = page.best_of(made, settings.objective)
    if best is not None:
        tell(f"run it with: {page.command(space, best)}")
    tell(f"search: {path}")
    if best is None:
        raise typer.Exit(_FAILED)
