"""The verbs `run`, `retime` and `flower run`: simulate a scenario or a Flower app, and report."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from fleetsim.cli.scenario_options import ScenarioName, changes, load
from fleetsim.cli.terminal import display, ended, note, output, output_json, say, tell
from fleetsim.errors import DataError
from fleetsim.host.collection import paused
from fleetsim.host.numerics import VARIABLE, Numerics, one_blas_thread, settle
from fleetsim.run_settings import RunFolderSettings

if TYPE_CHECKING:
    from fleetsim.learning.data.loading import Prefetch
    from fleetsim.record.saved_run import Run
    from fleetsim.scenario import Scenario


def run(
    scenario: ScenarioName,
    *,
    seed: int | None = None,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    out: Path | None = None,
    torch_device: Literal["cpu", "cuda"] = "cpu",
    workers: int | None = None,
    dask: str | None = None,
    numerics: Numerics | None = None,
    plugin: list[str] | None = None,
    no_train: bool = False,
    resume: bool = False,
    allow_other_platform: bool = False,
    tracker: list[str] | None = None,
    results_cache: Path | None = None,
    no_report: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Run a scenario and report on it."""
    if numerics is not None:
        os.environ[VARIABLE] = numerics.value
    settle()
    loaded = load(scenario, changes(set_, unset), seed, plugin, train=not no_train)
    from fleetsim.trackers.named import trackers_named  # imports numpy

    trackers = trackers_named(tracker or ())
    done = _simulated(
        loaded,
        as_json=as_json,
        quiet=quiet,
        out=out,
        train=not no_train,
        torch_device=torch_device,
        workers=workers,
        dask=dask,
        resume=resume,
        allow_other_platform=allow_other_platform,
        results_cache=results_cache,
        trackers=trackers,
    )
    finish(done, writes_report=not no_report, as_json=as_json, quiet=quiet)


def _simulated(scenario: Scenario, *, as_json: bool, quiet: bool, **settings: Any) -> Run:
    """Run a scenario with a display; `settings` are those of `RunSettings`."""
    with one_blas_thread():
        # Before torch is imported, which takes longer than most data sets do.
        reading = _begin_to_read(scenario)
        # The processes that train do not examine the imported objects either.
        with paused():
            from fleetsim import simulate
            from fleetsim.progress import watch

        with watch(scenario, display(as_json=as_json, quiet=quiet), say) as on_progress:
            return simulate.run(
                scenario,
                on_progress=on_progress,
                on_note=partial(note, quiet=quiet),
                reading=reading,
                **settings,
            )


def retime(
    run: Path,
    *,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    out: Path | None = None,
    workers: int | None = None,
    plugin: list[str] | None = None,
    results_cache: Path | None = None,
    no_report: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Repeat a run in another world, with the training that it has in common with the first.

    It says from which round on other clients train. Before it, training is found in the results
    cache, which is the one beside the run unless given.
    """
    from fleetsim.record.measures.selection_measures import first_other_round
    from fleetsim.record.run_folder import SCENARIO
    from fleetsim.record.saved_run import open_run
    from fleetsim.training.prepared_task import UNTRAINED

    settle()
    before = open_run(run)
    manifest = before.manifest
    if manifest.flower is not None:
        raise DataError(f"{run}: is a run of a Flower app; repeat it with `fleetsim flower run`")
    if not (set_ or unset):
        raise typer.BadParameter("name the other world, as --set fleet.thermal.ambient_c=35")
    train = manifest.trainer != UNTRAINED
    loaded = load(str(run / SCENARIO), changes(set_, unset), None, plugin, train=train)
    home = next(folder for folder in run.resolve().parents if folder.name != "study-runs")
    if train and manifest.results_cache is None:
        note(f"{run}: was run without --results-cache; its training is computed anew", quiet=quiet)
    done = _simulated(
        loaded,
        as_json=as_json,
        quiet=quiet,
        out=out,
        train=train,
        torch_device="cuda" if "cuda" in manifest.platforms[-1].features else "cpu",
        workers=workers,
        results_cache=results_cache or home / "results-cache",
    )
    num_rounds = min(len(before.rounds), len(done.rounds))
    number = first_other_round(before.recorded_tasks, done.recorded_tasks, num_rounds)
    finish(
        done,
        writes_report=not no_report,
        as_json=as_json,
        quiet=quiet,
        more={"before": run, "first_other_round": number},
    )
    if not (as_json or quiet):
        where = f"before round {number}, from which on other clients train or deliver"
        tell(f"choices: those of {run} {where if number else f'in all {num_rounds} rounds'}")


def run_app(
    app: Path,
    *,
    scenario: ScenarioName,
    run_config: list[str] | None = None,
    seed: int | None = None,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    out: Path | None = None,
    resume: bool = False,
    allow_other_platform: bool = False,
    on_client_error: Literal["reply", "stop"] = "reply",
    log: bool = False,
    no_report: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Run a Flower app, which executes its code, on the fleet of a scenario; report on it."""
    from fleetsim.flower import versions

    versions.require()
    settle()
    from fleetsim import scenario as scenarios
    from fleetsim.flower import running
    from fleetsim.progress import watch

    loaded = scenarios.load(scenario, changes(set_, unset), seed=seed)
    on_note = partial(note, quiet=quiet)
    on_note(running.WITHOUT_EFFECT)
    with watch(loaded, display(as_json=as_json, quiet=quiet), say) as on_progress:
        done = running.run(
            app,
            loaded,
            RunFolderSettings(
                out=out,
                resume=resume,
                allow_other_platform=allow_other_platform,
                on_progress=on_progress,
                on_note=on_note,
            ),
            run_config=run_config or (),
            shows_log=log,
            on_client_error=on_client_error,
        )
    finish(done, writes_report=not no_report, as_json=as_json, quiet=quiet)


def finish(
    done: Run,
    *,
    writes_report: bool,
    as_json: bool,
    quiet: bool,
    more: dict[str, object] | None = None,
) -> None:
    """Print the summary of a run that is done, its JSON or its folder, and write its report."""
    if as_json or quiet:
        for failure in done.manifest.failures:
            say(f"warning: {failure.what} {failure.cause}")
    else:
        from fleetsim.report.pages import summary

        tell(*summary.terminal_lines(done))
    page = _report(done) if writes_report else None
    if as_json:
        from fleetsim.report.pages.summary import run_record

        output_json({**run_record(done), "report": page, **(more or {})})
    elif quiet:
        output(done.folder)
    elif page is not None:
        tell(f"report: {page}")


def _report(done: Run) -> Path:
    try:
        # Imported after the run: its libraries take a second and a hundred megabytes.
        with paused():
            from fleetsim.report.pages import run_page

        return run_page.write_report(done)
    except KeyboardInterrupt as interrupt:
        again = shlex.join(["fleetsim", "report", str(done.folder)])
        message = f": the run is complete, its report is not; write it with: {again}"
        raise ended(interrupt, message) from interrupt


def _begin_to_read(scenario: Scenario) -> Prefetch | None:
    """Begin to read the data set in a thread; None if there is nothing to read."""
    from fleetsim.learning.data.built_in import BlankSettings
    from fleetsim.learning.data.loading import Prefetch

    dataset = scenario.task.dataset
    if isinstance(dataset, BlankSettings):
        return None
    return Prefetch(dataset, seed=scenario.clients_seed, num_clients=scenario.fleet.size)
