"""The verbs `study run`, `study status` and `study report`: runs of a study, and its page."""

from __future__ import annotations

from collections import Counter
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetsim import bundled
from fleetsim.cli import terminal
from fleetsim.cli.scenario_options import FigureFormat, changes
from fleetsim.cli.terminal import display, ended, note, output, output_json, say, tell, wide
from fleetsim.errors import FaultsError

if TYPE_CHECKING:
    from fleetsim.cli.scenario_options import Changes
    from fleetsim.record.saved_run import Run
    from fleetsim.studies.backends import Backend
    from fleetsim.studies.result import StudyResult
    from fleetsim.studies.run_store import RunStore
    from fleetsim.studies.study import Study

StudyName = Annotated[str, lambda: bundled.names("studies")]


def run(
    study: StudyName,
    *,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    home: Path = Path("runs"),
    workers: int | None = None,
    dask: str | None = None,
    plugin: list[str] | None = None,
    timeout_s: float | None = None,
    no_results_cache: bool = False,
    run_reports: bool = False,
    verbose: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Carry out the runs of a study that are missing, and write its page.

    After an interrupt, with more seeds or in another study, no run is made twice.

    Exit code 1: some runs failed.
    """
    from fleetsim.studies.display import watch
    from fleetsim.studies.execution import execute
    from fleetsim.studies.result import StudyResult
    from fleetsim.studies.run_store import RunStore

    if workers is not None and dask is not None:
        raise typer.BadParameter(
            "--workers counts processes of this machine; leave it out with --dask"
        )
    loaded = _load(study, changes(set_, unset), plugin)
    store = RunStore(home, caches_results=not no_results_cache)
    backend = _backend(workers, dask)
    try:
        with watch(display(as_json=as_json, quiet=quiet)) as watcher:
            done = execute(
                loaded,
                store,
                backend,
                watcher,
                on_finished=_write_report if run_reports else lambda run: None,
                timeout_s=timeout_s,
            )
    except KeyboardInterrupt as interrupt:
        message = f": complete runs are kept; go on with: {terminal.command_line()}"
        raise ended(interrupt, message) from interrupt
    _report(StudyResult(loaded, home), verbose=verbose, as_json=as_json, quiet=quiet)
    if done.failures:
        num = f"{len(done.failures)} of {len(loaded.runs)}"
        say(f"error: {num} runs failed; the page says why")
        raise typer.Exit(1)


def status(
    study: StudyName,
    *,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    home: Path = Path("runs"),
    plugin: list[str] | None = None,
    as_json: bool = False,
) -> None:
    """Check a study file, and count its runs that are complete and begun; name the failed ones.

    The tables of complete runs are compared with their digests; damaged runs are named, too. A
    study whose plug-ins are not given is as its last `study run` had it.
    """
    from fleetsim.studies.run_store import RunStore
    from fleetsim.studies.study_setup import mixtures

    store = RunStore(home)
    loaded = _load_or_recall(study, changes(set_, unset), plugin, store)
    reasons = store.failures(loaded.settings.name)
    notes = list(mixtures(loaded, store))
    num, done, runs = Counter[str](), Counter[tuple[str, str]](), []
    for planned in loaded.runs:
        state: str = store.status(planned)
        damage = store.damage(planned)
        if damage is not None:
            state, reasons[planned.key] = "damaged", damage
        num[state] += 1
        done[planned.condition, planned.arm] += state == "done"
        if planned.key in reasons and state in ("missing", "unfinished"):
            state = "failed"
        row: dict[str, Any] = {"condition": planned.condition, "arm": planned.arm}
        row |= {"seed": planned.seed, "status": state}
        row["reason"] = None if state == "done" else reasons.get(planned.key)
        runs.append({**row, "folder": store.folder(planned)})
    if as_json:
        head = {"name": loaded.settings.name, "home": home, "num_runs": len(runs)}
        output_json({**head, "num_done": num["done"], "runs": runs, "notes": notes})
        return
    lines = []
    for condition, arm in product(loaded.levels, loaded.arms):
        name = ", ".join(filter(None, (condition, arm)))
        total = len(loaded.settings.seeds)
        lines.append(f"{name}: {done[condition, arm]} of {total} runs complete")
    for planned, row in zip(loaded.runs, runs, strict=True):
        if row["status"] in ("damaged", "failed"):
            lines.append(f"{row['status']}: {planned.name}: {row['reason']}")
    lines.append(
        f"{num['done']} of {len(runs)} runs are complete, {num['unfinished']} begun; home {home}"
    )
    tell(*lines, *(f"note: {line}" for line in notes))


def report(
    study: StudyName,
    *,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    home: Path = Path("runs"),
    out: Path | None = None,
    format_: list[FigureFormat] | None = None,
    dpi: int = 300,
    width: float = 3.5,
    latex: bool = False,
    latex_std: bool = False,
    plugin: list[str] | None = None,
    verbose: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Write the page and the tables of a study from the runs that are complete.

    A study whose plug-ins are not given is as its last `study run` had it.
    """
    from fleetsim.studies.result import StudyResult
    from fleetsim.studies.run_store import RunStore

    overrides = changes(set_, unset)
    loaded = _load_or_recall(study, overrides, plugin, RunStore(home), quiet=quiet)
    spread = "std" if latex_std else latex
    files = {"formats": format_ or (), "dpi": dpi, "width_in": width, "latex": spread}
    result = StudyResult(loaded, home)
    _report(result, out, verbose=verbose, as_json=as_json, quiet=quiet, **files)


def _report(
    result: StudyResult,
    folder: Path | None = None,
    *,
    verbose: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **files: Any,
) -> None:
    """Write the page, print the verdicts and where it is; a line for each damaged run."""
    from fleetsim.studies.page import terminal_tables

    num_done = int((result.runs["status"] == "done").sum())
    if num_done < len(result.runs):
        note(
            f"{num_done} of {len(result.runs)} runs are complete; `fleetsim study run` makes the"
            " others",
            quiet=quiet,
        )
    damaged = result.runs[result.runs["status"] == "damaged"]
    for row in damaged.to_dict("records"):
        name = ", ".join(filter(None, (row["condition"], row["arm"], f"seed {row['seed']}")))
        say(f"warning: {name} is damaged, and left out: {row['reason']}")
    lines = result.sentences() if verbose else []
    drawn = list(result.terminal_tables())
    page = result.write_report(folder, **files)
    if as_json:
        output_json(result.record() | {"page": page})
        return
    if quiet:
        output(page)
        return
    for heading, table in drawn:
        tell(heading)
        wide().print(table, highlight=False, markup=False)
    if drawn and not verbose:
        tell(terminal_tables.LEGEND)
        lines = result.answers()
    tell(*lines, f"study: {page}")


def _load_or_recall(
    study: str,
    overrides: Changes,
    plugin: list[str] | None,
    store: RunStore,
    *,
    quiet: bool = False,
) -> Study:
    """Load a study; if it cannot be, as its last execution had it, whose results are stored."""
    from fleetsim.studies.study import recalled_study

    try:
        return _load(study, overrides, plugin)
    except FaultsError as fault:
        stored = recalled_study(study, overrides, store.cells)
        if stored is None:
            raise
        note(f"the study is as its last `study run` had it: {fault.faults[0]}", quiet=quiet)
        return stored


def _load(study: str, overrides: Changes, plugin: list[str] | None) -> Study:
    """Load a study, and print the warnings of its scenarios, each once."""
    from fleetsim.scenario import scenario_warnings
    from fleetsim.studies.study import load_study

    loaded = load_study(study, overrides, plugin=plugin)
    train = loaded.settings.train
    each = (scenario_warnings(scenario, train=train) for scenario in loaded.cells.values())
    for line in dict.fromkeys(chain.from_iterable(each)):
        say(f"warning: {line}")
    return loaded


def _backend(workers: int | None, dask: str | None) -> Backend:
    """Return the processes of this machine, or the Dask cluster at an address."""
    if dask is None:
        from fleetsim.studies.backends import LocalProcesses

        return LocalProcesses(workers)
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
