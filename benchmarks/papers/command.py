"""Command `python -m benchmarks.papers`: repeat experiments of papers, write docs/papers."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.papers import figure, page
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.experiments import EXPERIMENTS
from benchmarks.papers.outcomes import Outcome, OutcomeFile
from benchmarks.papers.runs import KnownRuns
from benchmarks.papers.tables import Result
from fleetsim.cli.terminal import console
from fleetsim.errors import FleetsimError
from fleetsim.record import atomic_files
from fleetsim.studies.backends import LocalProcesses
from fleetsim.studies.display import watch
from fleetsim.studies.execution import execute
from fleetsim.studies.run_store import HOME
from fleetsim.studies.study import Study

_FIGURES = "papers.jsonl"
_DOCS = Path(__file__).resolve().parents[2] / "docs"
_FAILED, _WRONG_INPUT, _INTERRUPTED = 1, 2, 130
_EXAMPLE = """\
example:
  python -m benchmarks.papers --short                    all studies, few rounds, one seed
  python -m benchmarks.papers --studies survey-synthetic
  python -m benchmarks.papers                            all studies, all seeds: hours
  python -m benchmarks.papers --render                   write docs/papers from stored figures

The figures of each run are a line of docs/papers.jsonl. A run with a line is not made again; delete
the line to repeat it. Runs are those of `fleetsim study run papers/NAME` with the same --home. An
interrupted run continues where it stopped. Data sets are found as by `fleetsim run`: fetch them, or
name their folder in FLEETSIM_DATA.
"""


def main() -> None:
    """Run the command; exit with 1 if runs failed, 2 on wrong input, and 130 when interrupted."""
    asked = _parser().parse_args()
    home: Path = asked.home
    num_failed, results = 0, []
    try:
        # Short runs keep their figures beside them, because they cannot be compared with a paper.
        outcomes = OutcomeFile((home if asked.short else _DOCS) / _FIGURES)
        for experiment in EXPERIMENTS:
            if experiment.name not in asked.studies:
                continue
            seeds = asked.seeds or ([1] if asked.short else None)
            study = experiment.study(seeds, is_short=asked.short)
            store = KnownRuns(home, study, outcomes)
            if not asked.render:
                print(f"{experiment.name}:", flush=True)
                with watch(console) as watcher:
                    done = execute(study, store, LocalProcesses(asked.jobs), watcher)
                num_failed += len(done.failures)
            result = _result(experiment, study, store)
            if result is None:
                continue
            results.append(result)
            if asked.short:
                print(f"\n## {experiment.name}\n\n{page.section(result)}")
            else:
                print(f"page: {_into_page(experiment.name, page.section(result))}")
        if results and not asked.short:
            _draw(results)
    except FleetsimError as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(_WRONG_INPUT)
    except KeyboardInterrupt:
        print(f"interrupted; runs are in {home}, the same command continues", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    if num_failed:
        print(f"error: {num_failed} runs failed; run the same command again", file=sys.stderr)
        sys.exit(_FAILED)


def _result(experiment: Experiment, study: Study, store: KnownRuns) -> Result | None:
    """Return the outcomes of the seeds that are complete; None if none is."""
    found: dict[str, dict[int, Outcome]] = {arm: {} for arm in study.arms}
    for planned in study.runs:
        outcome = store.outcome(planned)
        if outcome is not None:
            found[planned.arm][planned.seed] = outcome
    seeds = study.settings.seeds
    kept = [seed for seed in seeds if all(seed in of_arm for of_arm in found.values())]
    if len(kept) < len(seeds):
        lacking = sorted(set(seeds) - set(kept))
        print(f"{experiment.name}: seeds {lacking} are not complete and are left out")
    if not kept:
        return None
    targets = [one.accuracy for one in study.settings.all_targets if one.smooth_rounds == 1]
    by_arm = {arm: [of_arm[seed] for seed in kept] for arm, of_arm in found.items()}
    settings = study.settings
    return Result(experiment, settings.scenario, settings.baseline_arm, kept, targets, by_arm)


def _into_page(name: str, section: str) -> Path:
    pages = {one: one.read_text(encoding="utf-8") for one in (_DOCS / "papers").glob("*.md")}
    target, text = page.fill(pages, name, section)
    atomic_files.write(target, text.encode(), hint="make docs/ writable")
    return target


def _draw(results: list[Result]) -> None:
    """Draw the figure if there are outcomes of all experiments that it shows."""
    known = {result.experiment.name for result in results}
    shown = [one for one in EXPERIMENTS if one.is_in_figure and one.study().settings.targets]
    lacking = [one.name for one in shown if one.name not in known]
    if lacking:
        print(f"papers.svg stays unchanged: no figures of {', '.join(lacking)}")
    else:
        drawn = [one for one in results if one.experiment.is_in_figure]
        figure.write(figure.draw(drawn), _DOCS / "papers.svg")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="Repeat the papers' experiments and write their tables into docs/papers.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument(
        "--studies", nargs="+", choices=names, default=names, metavar="S", help=", ".join(names)
    )
    parser.add_argument("--seeds", nargs="+", type=int, help="the studies' own; 1 with --short")
    parser.add_argument(
        "--short", action="store_true", help="few rounds; print tables, write no page"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="runs at once (all cores)"
    )
    parser.add_argument("--home", type=Path, default=HOME, help=f"folder of the runs ({HOME})")
    parser.add_argument("--render", action="store_true", help="write the page without making runs")
    return parser
