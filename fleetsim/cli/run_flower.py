"""The verb `flower run`: a Flower app on the virtual clock of a scenario's fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetsim.cli import completion
from fleetsim.cli.run_scenario import finish
from fleetsim.cli.scenario_options import SeedOption, SetOption
from fleetsim.cli.terminal import console, note, say
from fleetsim.host.numerics import settle

AppArgument = Annotated[
    Path, typer.Argument(metavar="APP_DIR", help="Folder with the app's pyproject.toml.")
]


def run(
    app: AppArgument,
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="A YAML file or the name of a bundled scenario, for its fleet.",
            autocompletion=completion.scenarios,
        ),
    ],
    run_config: Annotated[
        list[str] | None,
        typer.Option(
            "--run-config",
            metavar="KEY=VALUE",
            help="Override a key of the app's configuration; may be given many times.",
        ),
    ] = None,
    seed: SeedOption = None,
    set_: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/APP-SCENARIO-HASH unless given.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the unfinished run of this app; begin if there is none."
        ),
    ] = False,
    allow_other_platform: Annotated[
        bool,
        typer.Option(
            "--allow-other-platform",
            help="Resume although the numerical platform differs; both are recorded.",
        ),
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Show Flower's own log, too.")] = False,
    no_report: Annotated[
        bool,
        typer.Option(
            "--no-report", help="Write no report.html; `fleetsim report RUN` does so later."
        ),
    ] = False,
) -> None:
    """Run a Flower app, which executes its code, on the fleet of a scenario; report on it."""
    from fleetsim.flower import versions

    versions.require()
    settle()
    from fleetsim import scenario as scenarios
    from fleetsim.flower import running
    from fleetsim.progress import watch

    loaded = scenarios.load(scenario, set_ or (), seed=seed)
    note(running.WITHOUT_EFFECT)
    with watch(loaded, console, say) as on_progress:
        done = running.run(
            app,
            loaded,
            run_config=run_config or (),
            out=out,
            resume=resume,
            allow_other_platform=allow_other_platform,
            shows_log=log,
            on_progress=on_progress,
            on_note=note,
        )
    finish(done, writes_report=not no_report)
