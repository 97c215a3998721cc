"""Command `python -m benchmarks.papers`: repeat experiments of papers, write docs/papers.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import environments
from benchmarks.papers import figure, page
from benchmarks.papers.outcomes import Outcome, OutcomeFile
from benchmarks.papers.runs import make, outcome, runs_of
from benchmarks.papers.studies import STUDIES, Study
from benchmarks.papers.tables import Outcomes
from fleetsim.errors import FleetsimError
from fleetsim.record import atomic_files

_FIGURES = "papers.jsonl"
_DOCS = Path(__file__).resolve().parents[2] / "docs"
_WRONG_INPUT, _INTERRUPTED = 2, 130
_EXAMPLE = """\
example:
  python -m benchmarks.papers --short                    all studies, few rounds, one seed
  python -m benchmarks.papers --studies survey-synthetic
  python -m benchmarks.papers                            all studies, three seeds: hours
  python -m benchmarks.papers --render                   write docs/papers.md from stored figures

The figures of each run are a line of docs/papers.jsonl. A run with a line is not made again; delete
the line to repeat it. An interrupted run continues where it stopped. Runs are in the folder papers
of $FLEETSIM_BENCH, or of ~/.cache/fleetsim-benchmarks. Data sets are found as by `fleetsim run`:
fetch them, or name their folder in FLEETSIM_DATA.
"""


def main() -> None:
    """Run the command; exit with 2 on wrong input and with 130 when interrupted."""
    asked = _parser().parse_args()
    studies = [study for study in STUDIES if study.name in asked.studies]
    home: Path = asked.out or environments.home() / ("papers-short" if asked.short else "papers")
    seeds: list[int] = asked.seeds or ([1] if asked.short else [1, 2, 3])
    wanted = runs_of(studies, seeds, is_short=asked.short)
    try:
        # Short runs keep their figures beside them, because they cannot be compared with a paper.
        outcomes = OutcomeFile(home / _FIGURES if asked.short else _DOCS / _FIGURES)
        if not asked.render:
            make(wanted, home, outcomes, jobs=asked.jobs)
        found: dict[Study, Outcomes] = {}
        for study in studies:
            own = [one for one in wanted if one.study is study]
            done = {(o.arm.name, o.seed): outcome(o, home, outcomes) for o in own}
            lacking = sorted({seed for (_, seed), one in done.items() if one is None})
            kept = [seed for seed in seeds if seed not in lacking]
            if lacking:
                print(f"{study.name}: seeds {lacking} are not complete and are left out")
            if kept:
                found[study] = {
                    arm.name: [_complete(done[arm.name, seed]) for seed in kept]
                    for arm in study.arms
                }
                text = page.section(study, found[study], kept)
                if asked.short:
                    print(f"\n## {study.name}\n\n{text}")
                else:
                    _into_page({study.name: text})
        if found and not asked.short:
            print(f"page: {_DOCS / 'papers.md'}")
            lacking_names = [one.name for one in STUDIES if one.price_targets and one not in found]
            if lacking_names:
                print(f"papers.svg stays unchanged: no figures of {', '.join(lacking_names)}")
            else:
                figure.write(figure.draw(found), _DOCS / "papers.svg")
    except FleetsimError as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(_WRONG_INPUT)
    except KeyboardInterrupt:
        print(f"interrupted; runs are in {home}, the same command continues", file=sys.stderr)
        sys.exit(_INTERRUPTED)


def _complete(one: Outcome | None) -> Outcome:
    if one is None:
        raise ValueError("a seed whose runs are not complete was kept")
    return one


def _into_page(sections: dict[str, str]) -> None:
    target = _DOCS / "papers.md"
    text = page.fill(target.read_text(encoding="utf-8"), sections)
    atomic_files.write(target, text.encode(), way_out="make docs/ writable")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="Repeat the papers' experiments and write their tables into docs/papers.md.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [study.name for study in STUDIES]
    parser.add_argument(
        "--studies", nargs="+", choices=names, default=names, metavar="S", help=", ".join(names)
    )
    parser.add_argument("--seeds", nargs="+", type=int, help="1 2 3; 1 with --short")
    parser.add_argument(
        "--short", action="store_true", help="few rounds; print tables, write no page"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="runs at once (all cores)"
    )
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--render", action="store_true", help="write the page without making runs")
    return parser
