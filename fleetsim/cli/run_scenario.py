"""The verbs `run` and `flower run`: simulate a scenario, or a Flower app on its fleet; report."""

from __future__ import annotations

import gc
import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fleetsim.cli.scenario_options import ScenarioName, changes, load
from fleetsim.cli.terminal import display, ended, note, output, output_json, say, tell
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
    numerics: Numerics | None = None,
    plugin: list[str] | None = None,
    no_train: bool = False,
    resume: bool = False,
    allow_other_platform: bool = False,
    tracker: list[str] | None = None,
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
    with one_blas_thread():
        # Before torch is imported, which takes longer than most data sets do.
        reading = _begin_to_read(loaded)
        from fleetsim import simulate
        from fleetsim.progress import watch

        # Half a million objects of imported libraries never become garbage. Frozen, neither the
        # collector nor the processes that train examine them again.
        gc.freeze()
        with watch(loaded, display(as_json=as_json, quiet=quiet), say) as on_progress:
            done = simulate.run(
                loaded,
                out=out,
                train=not no_train,
                torch_device=torch_device,
                workers=workers,
                resume=resume,
                allow_other_platform=allow_other_platform,
                on_progress=on_progress,
                on_note=partial(note, quiet=quiet),
                reading=reading,
                trackers=trackers,
            )
    finish(done, writes_report=not no_report, as_json=as_json, quiet=quiet)


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


def finish(done: Run, *, writes_report: bool, as_json: bool, quiet: bool) -> None:
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

        output_json(run_record(done) | {"report": page})
    elif quiet:
        output(done.folder)
    elif page is not None:
        tell(f"report: {page}")


def _report(done: Run) -> Path:
    try:
        # Imported after the run: its libraries take a second and a hundred megabytes.
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
