"""The verbs `selector train`, `selector show` and `selector break-even`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from fleetsim.cli.scenario_options import changes
from fleetsim.cli.terminal import command_line, console, say, tell
from fleetsim.host import paths

if TYPE_CHECKING:
    from fleetsim.cli.scenario_options import Changes
    from fleetsim.selector_training.episodes import Episode

_FROM_RECORDS = "fedgcs"


def train(
    kind: str,
    *,
    out: Path,
    scenario: str | None = None,
    episodes: int = 100,
    first_seed: int = 1_000_001,
    records: str | None = None,
    form: Literal["round", "run"] = "round",
    arm: list[str] | None = None,
    per_arm: int | None = None,
    seed: int = 1,
    set_: list[str] | None = None,
    unset: list[str] | None = None,
    home: Path = Path("runs"),
    workers: int | None = None,
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
        asked = {"form": form, "per_arm": per_arm, "arms": tuple(arm or ())}
        _from_records(records, asked, out, seed, changes(set_, unset), home)
    else:
        if scenario is None or records is not None:
            message = f"{kind} learns over episodes: give --scenario and no --records"
            raise typer.BadParameter(message)
        _over_episodes(scenario, kind, out, episodes, first_seed, changes(set_, unset), workers)
    say(f"weights: {out}")


def show(file: str) -> None:
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
    file: str,
    *,
    study: str,
    arm: str,
    baseline: str | None = None,
    server_w: float = 100.0,
    home: Path = Path("runs"),
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
            command=command_line(),
            workers=workers,
            on_progress=lambda number, progress: update(number - 1, progress_text(progress)),
            on_episode=report,
        )


def _from_records(
    study: str, asked: dict[str, Any], out: Path, seed: int, overrides: Changes, home: Path
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
            loaded, RunStore(home), **asked, on_run=lambda done, planned: update(done, "")
        )

    def report(number: int, clients: str, facts: Mapping[str, str]) -> None:
        def of(name: str) -> str:
            value = facts.get(f"fit_{name}")
            return "-" if value is None else f"{float(value):.2f}"

        num_records = len(fleets[clients].records)
        tell(
            f"[{number}/{len(fleets)}] clients {clients[:8]}: {num_records} records,"
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
            command=command_line(),
            on_progress=lambda fleet, done, planned: update(
                fleet - 1 + done / planned, f"epoch {done} of at most {planned}"
            ),
            on_fleet=report,
        )
