"""The verbs `selector train`, `selector show` and `selector break-even`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleetsim.cli.scenario_options import SetOption, UnsetOption, changes
from fleetsim.cli.terminal import console, say, tell
from fleetsim.host import paths

if TYPE_CHECKING:
    from fleetsim.cli.scenario_options import Changes
    from fleetsim.selector_training.episodes import Episode
    from fleetsim.selector_training.record_training import FleetFit, RecordRequest

_MAX_EPISODES = 1_000_000
_MAX_WORKERS = 1024
_FROM_RECORDS = "fedgcs"

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A weight file or the name of a bundled one.")
]
HomeOption = Annotated[Path, typer.Option(help="Folder of the runs of studies.")]


def train(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="favor, fedmarl, autofl or fedgcs.")],
    out: Annotated[Path, typer.Option(help="The weight file to write, FILE.safetensors.")],
    scenario: Annotated[
        str | None, typer.Option(help="Scenario of every episode: a YAML file or a bundled name.")
    ] = None,
    episodes: Annotated[
        int, typer.Option(help="Number of episodes.", min=1, max=_MAX_EPISODES)
    ] = 100,
    first_seed: Annotated[
        int, typer.Option(help="Seed of the first episode; the next one has the next.", min=0)
    ] = 1_000_001,
    records: Annotated[
        str | None, typer.Option(metavar="STUDY", help="Study whose runs are the records (fedgcs).")
    ] = None,
    form: Annotated[
        Literal["round", "run"],
        typer.Option(help="A record is a round, or a whole run of a fixed set."),
    ] = "round",
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Arm whose runs are records; all unless given, may be given many times."),
    ] = None,
    per_arm: Annotated[
        int | None, typer.Option(help="Records of each arm and fleet; all unless given.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a fit to records.", min=0)] = 1,
    set_: SetOption = None,
    unset: UnsetOption = None,
    home: HomeOption = Path("runs"),
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that train models; one for every core unless given.",
            min=1,
            max=_MAX_WORKERS,
        ),
    ] = None,
) -> None:
    """Train a selector before it is used, and write its weights.

    Favor, FedMarl and AutoFL learn over episodes of a scenario; an interrupted training goes on
    when the command is repeated. FedGCS learns from the complete runs of a study, by the settings
    of server.selector. `--set` overrides keys of the scenario, such as server.selector.hidden=32.
    """
    out = paths.local(out)
    if kind == _FROM_RECORDS:
        if records is None or scenario is not None:
            raise typer.BadParameter(
                "fedgcs learns from records: give --records STUDY and no --scenario"
            )
        from fleetsim.selector_training.record_training import RecordRequest

        request = RecordRequest(form, per_arm=per_arm, arms=tuple(arm or ()))
        _from_records(records, request, out, seed, changes(set_, unset), home)
    else:
        if scenario is None or records is not None:
            message = f"{kind} learns over episodes: give --scenario and no --records"
            raise typer.BadParameter(message)
        _over_episodes(scenario, kind, out, episodes, first_seed, changes(set_, unset), workers)
    say(f"weights: {out}")


def show(file: FileArgument) -> None:
    """Show where the weights of a file come from, and what they cost."""
    from fleetsim.selector_training.break_even import facts_by_clients
    from fleetsim.selectors.learned_weights import read_weights

    learned = read_weights(file)
    lines = [f"kind: {learned.kind}"]
    for clients, facts in facts_by_clients(learned).items():
        arrays = learned.weights[clients]
        num = sum(array.size for array in arrays.values())
        lines.append(f"clients {clients[:16]}: {len(arrays)} arrays, {num:,} numbers")
        lines += [f"  {key}: {value}" for key, value in facts.items()]
    tell(*lines)


def break_even(
    file: FileArgument,
    study: Annotated[str, typer.Option(help="Study with an arm that uses the weights.")],
    arm: Annotated[str, typer.Option(help="The arm that uses the weights.")],
    baseline: Annotated[
        str | None, typer.Option(help="Arm to compare with; that of the study unless given.")
    ] = None,
    server_w: Annotated[
        float, typer.Option(help="Power of the machine that fits to records, W.", min=0.0)
    ] = 100.0,
    home: HomeOption = Path("runs"),
) -> None:
    """Compare what training cost with what a run saves: runs to break even."""
    from fleetsim.selector_training.break_even import break_even as rows_of
    from fleetsim.selector_training.break_even import spent_before_use
    from fleetsim.selectors.learned_weights import read_weights
    from fleetsim.studies.result import StudyResult
    from fleetsim.studies.study import load_study

    spent = spent_before_use(read_weights(file), server_w=server_w)
    loaded = load_study(study)
    against = baseline or loaded.settings.baseline_arm
    loaded.require_arms([arm, against])
    lines = [
        f"before use, mean of {spent.fleets} fleet(s): {spent.virtual_s / 3600:.2f} h and"
        f" {spent.energy_j / 1e3:.2f} kJ of the fleet, {spent.server_s:.0f} s and"
        f" {spent.server_j / 1e3:.2f} kJ of the server ({server_w:g} W)"
    ]
    for row in rows_of(StudyResult(loaded, home).tables.costs, spent, arm=arm, baseline=against):
        unit = {"seconds": "s", "joules": "J"}[row.metric]
        saves = (
            f"a run saves {row.saving:.4g} {unit} [{row.low:.4g}, {row.high:.4g}]"
            f" against {against} ({row.num_seeds} seeds)"
        )
        if row.num_seeds == 0:
            saves = "no seed has both arms at the target"
        pays = "never"
        if row.runs is not None:
            pays = f"after {row.runs:.1f} runs ({row.rounds:.0f} rounds)"
        lines.append(f"{row.target}, {row.metric}: {saves}; pays {pays}")
    tell(*lines)


def _over_episodes(
    scenario: str,
    kind: str,
    out: Path,
    episodes: int,
    first_seed: int,
    overrides: Changes,
    workers: int | None,
) -> None:
    from fleetsim.progress import bar, progress_text
    from fleetsim.scenario import load
    from fleetsim.selector_training.episodes import train_by_episodes

    loaded = load(scenario, [f"server.selector.kind={kind}", *overrides])

    def report(number: int, episode: Episode) -> None:
        accuracy = "" if episode.accuracy is None else f", accuracy {episode.accuracy:.3f}"
        tell(
            f"[{number}/{episodes}] seed {episode.seed}: {episode.rounds} rounds{accuracy},"
            f" {episode.virtual_s:.0f} s, {episode.energy_j:.0f} J"
        )

    with bar("episode", console, total=episodes, log=say) as update:
        train_by_episodes(
            loaded,
            episodes=episodes,
            first_seed=first_seed,
            out=out,
            command=_command(),
            workers=workers,
            on_progress=lambda number, progress: update(number - 1, progress_text(progress)),
            on_episode=report,
        )


def _from_records(
    study: str, request: RecordRequest, out: Path, seed: int, overrides: Changes, home: Path
) -> None:
    from fleetsim.progress import bar
    from fleetsim.selector_training.record_training import (
        collected,
        settings_of,
        train_from_records,
    )
    from fleetsim.studies.run_store import RunStore
    from fleetsim.studies.study import load_study

    settings = settings_of(overrides)
    loaded = load_study(study)
    with bar("reading runs", console, total=len(loaded.runs), log=say) as update:
        fleets = collected(
            loaded, RunStore(home), request, on_run=lambda done, planned: update(done, "")
        )

    def report(number: int, fit: FleetFit) -> None:
        def of(name: str) -> str:
            value = fit.facts.get(f"fit_{name}")
            return "-" if value is None else f"{float(value):.2f}"

        tell(
            f"[{number}/{len(fleets)}] clients {fit.clients[:8]}: {fit.num_records} records,"
            f" held-out Kendall {of('kendall')}, Spearman {of('spearman')} (shuffled scores"
            f" {of('control_kendall')}, {of('control_spearman')})"
        )

    with bar("fitting", console, total=len(fleets), log=say) as update:
        train_from_records(
            fleets,
            settings,
            num_clients=next(iter(loaded.cells.values())).fleet.size,
            seed=seed,
            out=out,
            command=_command(),
            on_progress=lambda fleet, done, planned: update(
                fleet - 1 + done / planned, f"epoch {done} of at most {planned}"
            ),
            on_fleet=report,
        )


def _command() -> str:
    return shlex.join(["fleetsim", *sys.argv[1:]])
