"""The verbs `study run`, `study status` and `study report`: runs of a study, and its page."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetsim.cli import completion
from fleetsim.cli.scenario_options import FormatOption, PluginOption
from fleetsim.cli.terminal import console, ended, note, say, tell

if TYPE_CHECKING:
    from fleetsim.record.saved_run import Run
    from fleetsim.studies.backends import Backend
    from fleetsim.studies.result import StudyResult
    from fleetsim.studies.study import Study

_MAX_JOBS = 1024
_MAX_TIMEOUT_S = 1e9
_FAILED = 1

StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A YAML file or the name of a bundled study.",
        autocompletion=completion.studies,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the study file, such as seeds=[1,2], or one of its scenario:"
        " 'overrides.\"stop.rounds\"=20'; may be given many times.",
    ),
]
HomeOption = Annotated[
    Path, typer.Option(help="Folder of the runs, which all studies share, and of the pages.")
]


def run(
    study: StudyArgument,
    set_: SetOption = None,
    home: HomeOption = Path("runs"),
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Runs at a time, one process each; as many as cores unless given.",
            min=1,
            max=_MAX_JOBS,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Carry out the runs on the Dask cluster of this scheduler, such as"
            # A bracket without the backslash would be taken for markup.
            " tcp://10.0.0.1:8786; needs fleetsim\\[dask].",
        ),
    ] = None,
    plugin: PluginOption = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="End a run that takes longer, of host time; it has failed, and the others go on.",
            min=1.0,
            max=_MAX_TIMEOUT_S,
        ),
    ] = None,
    no_results_cache: Annotated[
        bool,
        typer.Option(
            "--no-results-cache",
            help="Compute all training anew, and keep none of it in HOME/results-cache.",
        ),
    ] = False,
    run_reports: Annotated[
        bool, typer.Option("--run-reports", help="Write the report of every new run, too.")
    ] = False,
) -> None:
    """Carry out the runs of a study that are missing, and write its page.

    After an interrupt, with more seeds or in another study, no run is made twice.

    Exit code 1: some runs failed.
    """
    from fleetsim.studies.display import watch
    from fleetsim.studies.execution import execute
    from fleetsim.studies.result import StudyResult
    from fleetsim.studies.run_store import RunStore

    if jobs is not None and dask is not None:
        raise typer.BadParameter(
            "--jobs counts processes of this machine; leave it out with --dask"
        )
    loaded = _load(study, set_, plugin)
    store = RunStore(home, caches_results=not no_results_cache)
    backend = _backend(jobs, dask)
    try:
        with watch(console) as watcher:
            done = execute(
                loaded,
                store,
                backend,
                watcher,
                on_finished=_write_report if run_reports else lambda run: None,
                timeout_s=timeout,
            )
    except KeyboardInterrupt as interrupt:
        again = shlex.join(["fleetsim", *sys.argv[1:]])
        raise ended(interrupt, f": complete runs are kept; go on with: {again}") from interrupt
    _report(StudyResult(loaded, home))
    if done.failures:
        num = f"{len(done.failures)} of {len(loaded.runs)}"
        say(f"error: {num} runs failed; the page says why")
        raise typer.Exit(_FAILED)


def status(
    study: StudyArgument,
    set_: SetOption = None,
    home: HomeOption = Path("runs"),
    plugin: PluginOption = None,
) -> None:
    """Check a study file, and count its runs that are complete and begun; name the failed ones.

    The tables of complete runs are compared with their digests; damaged runs are named, too.
    """
    from fleetsim.studies.mixed_platforms import mixtures
    from fleetsim.studies.run_store import RunStore

    loaded = _load(study, set_, plugin)
    store = RunStore(home)
    reasons = store.failures(loaded.settings.name)
    statuses = {planned.key: store.status(planned) for planned in loaded.runs}
    damages = {
        planned.key: message for planned in loaded.runs if (message := store.damage(planned))
    }
    statuses |= dict.fromkeys(damages, "damaged")
    done = Counter(
        (planned.condition, planned.arm)
        for planned in loaded.runs
        if statuses[planned.key] == "done"
    )
    lines = []
    for condition, arm in product(loaded.conditions, loaded.arms):
        name, num_done = ", ".join(filter(None, (condition.label, arm))), done[condition.label, arm]
        lines.append(f"{name}: {num_done} of {len(loaded.settings.seeds)} runs complete")
    for planned in loaded.runs:
        if statuses[planned.key] == "damaged":
            lines.append(f"damaged: {planned.name}: {damages[planned.key]}")
        elif statuses[planned.key] != "done" and planned.key in reasons:
            lines.append(f"failed: {planned.name}: {reasons[planned.key]}")
    num = Counter(statuses.values())
    lines.append(
        f"{num['done']} of {len(statuses)} runs are complete, {num['unfinished']} begun;"
        f" home {home}"
    )
    tell(*lines, *(f"note: {line}" for line in mixtures(loaded, store)))


def report(
    study: StudyArgument,
    set_: SetOption = None,
    home: HomeOption = Path("runs"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page; HOME/studies/NAME unless given.")
    ] = None,
    format_: FormatOption = None,
    latex: Annotated[bool, typer.Option("--latex", help="Write tables for LaTeX, too.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Write the page and the tables of a study from the runs that are complete."""
    from fleetsim.studies.result import StudyResult

    result = StudyResult(_load(study, set_, plugin), home)
    _report(result, out, formats=format_ or (), latex=latex)


def _report(
    result: StudyResult,
    folder: Path | None = None,
    *,
    formats: Sequence[str] = (),
    latex: bool = False,
) -> None:
    """Write the page, print the verdicts and where it is; a line for each damaged run."""
    num_done = int((result.runs["status"] == "done").sum())
    if num_done < len(result.runs):
        note(
            f"{num_done} of {len(result.runs)} runs are complete; `fleetsim study run` makes the"
            " others"
        )
    damaged = result.runs[result.runs["status"] == "damaged"]
    for row in damaged.to_dict("records"):
        name = ", ".join(filter(None, (row["condition"], row["arm"], f"seed {row['seed']}")))
        say(f"warning: {name} is damaged, and left out: {row['reason']}")
    lines = []
    for condition in result.study.conditions:
        verdicts = result.verdicts[result.verdicts["condition"] == condition.label]
        if condition.label:
            lines.append(f"{condition.label}:")
        # Where no run reached a target, the sentences of all currencies are the same.
        lines += [f"- {sentence}" for sentence in dict.fromkeys(verdicts["sentence"])]
    page = result.write_report(folder, formats=formats, latex=latex)
    tell(*lines, f"study: {page}")


def _load(study: str, overrides: list[str] | None, plugin: list[str] | None) -> Study:
    """Load a study, and print the warnings of its scenarios, each once."""
    from fleetsim.scenario import scenario_warnings
    from fleetsim.studies.study import load_study

    loaded = load_study(study, overrides or (), plugin=plugin)
    train = loaded.settings.train
    each = (scenario_warnings(scenario, train=train) for scenario in loaded.cells.values())
    for line in dict.fromkeys(chain.from_iterable(each)):
        say(f"warning: {line}")
    return loaded


def _backend(jobs: int | None, dask: str | None) -> Backend:
    """Return the processes of this machine, or the Dask cluster at an address."""
    if dask is None:
        from fleetsim.studies.backends import LocalProcesses

        return LocalProcesses(jobs or os.cpu_count() or 1)
    from fleetsim.studies.dask_cluster import connect

    cluster = connect(dask)
    try:
        for line in cluster.look_at_workers():
            note(line)
    except BaseException:
        cluster.close()
        raise
    return cluster


def _write_report(run: Run) -> None:
    from fleetsim.report.pages import run_page

    run_page.write_report(run)
