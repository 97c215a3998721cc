"""Command `python -m benchmarks`: measure fleetsim and its peers, and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import environments, page, runs, summary
from benchmarks.contestants import CONTESTANTS
from benchmarks.measure import Options, measure
from benchmarks.results import Store
from benchmarks.works import OURS, WORKS, DataFolders
from fleetsim.errors import FleetsimError

_PAGE = runs.ROOT / "docs" / "benchmarks.md"
_WRONG_INPUT, _INTERRUPTED = 2, 130
_EXAMPLE = """\
example:
  python -m benchmarks                               all works, three times; 90 minutes on two cores
  python -m benchmarks --works w1 w3 --repeats 1     two works, once
  python -m benchmarks --merge MACHINE.json          add a machine to docs/benchmarks.md
  python -m benchmarks --render                      write docs/benchmarks.md anew

Measuring writes machine.json into --out and changes no page; --merge takes that file, also of
another machine, into benchmarks/machines/ and writes the page.

The same command continues an interrupted session: runs whose results are in --out are not repeated
unless they failed. Environments, exported data and results are kept in $FLEETSIM_BENCH, or in
~/.cache/fleetsim-benchmarks. Do not use the machine while it measures.
"""


def main() -> None:
    """Run the command; exit with 2 on wrong input and with 130 when interrupted."""
    parser = _parser()
    arguments = parser.parse_args()
    home: Path = environments.home()
    options = Options(
        works=tuple(work for work in WORKS if work.name in arguments.works),
        contestants=tuple(arguments.contestants),
        repeats=arguments.repeats,
        rounds=arguments.rounds,
        workers=arguments.workers,
        timeout_s=arguments.timeout_s,
        folders=DataFolders(
            own_data=home / "data", cifar10=arguments.cifar10, wikitext2=arguments.wikitext2
        ),
        home=home,
        store=Store(arguments.out or home / "results"),
    )
    try:
        for record in arguments.merge:
            print(f"machine: {summary.merge(record, arguments.machines)}")
        if arguments.merge or arguments.render:
            _render(arguments.machines, arguments.page)
        else:
            measure(options)
            print(f"to docs/benchmarks.md: python -m benchmarks --merge {options.store.machine}")
    except FleetsimError as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(_WRONG_INPUT)
    except KeyboardInterrupt:
        print(f"interrupted; results are in {options.store.folder}", file=sys.stderr)
        sys.exit(_INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    names = [OURS, *(contestant.name for contestant in CONTESTANTS)]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure fleetsim beside its peers and write docs/benchmarks.md.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    works = [work.name for work in WORKS]
    parser.add_argument("--works", nargs="+", choices=works, default=works, metavar="W")
    parser.add_argument(
        "--contestants", nargs="+", choices=names, default=names, metavar="C", help=", ".join(names)
    )
    parser.add_argument("--repeats", type=_positive, default=3, help="runs of each contestant (3)")
    parser.add_argument("--rounds", type=_positive, help="rounds of a run (each work's own number)")
    parser.add_argument(
        "--workers",
        type=_positive,
        default=os.cpu_count() or 1,
        help="processes, threads or actors that each contestant may use (all cores)",
    )
    parser.add_argument(
        "--timeout-s", type=float, default=900.0, help="time limit of one run (900)"
    )
    parser.add_argument("--out", type=Path, help="folder of the results (results, in the cache)")
    parser.add_argument(
        "--cifar10", type=Path, help="folder of CIFAR-10 for w4, unless fleetsim finds it"
    )
    parser.add_argument(
        "--wikitext2", type=Path, help="folder of WikiText-2 for w8, unless fleetsim finds it"
    )
    parser.add_argument(
        "--page", type=Path, default=_PAGE, help="file of the page (docs/benchmarks.md)"
    )
    parser.add_argument(
        "--machines",
        type=Path,
        default=summary.MACHINES,
        help="folder of the records of machines (benchmarks/machines)",
    )
    parser.add_argument(
        "--merge",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="add records of machines and write the page, without measuring",
    )
    parser.add_argument("--render", action="store_true", help="write the page without measuring")
    return parser


def _positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _render(machines: Path, target: Path) -> None:
    """Write the page from the records of all machines."""
    target.write_text(page.render(summary.all_machines(machines)), encoding="utf-8")
    print(f"page: {target}")


if __name__ == "__main__":
    main()
