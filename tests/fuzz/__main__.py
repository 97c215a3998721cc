"""Fuzzer: thousands of damaged scenarios, studies, data sets, traces, run folders and plug-ins.

    python -m tests.fuzz --cases 20000 --jobs 2
    python -m tests.fuzz --targets trace folder --cases 500 --seed 7

Each fault is printed with the seed that draws it again, and kept in its smallest form below --keep.
The exit code is 1 if there was a fault.

- `sandbox`: server process from which commands are forked, under limits of time and memory.
- `verdict`: rules that the end of a command must meet.
- `documents`: damaged YAML documents, drawn from the bundled files and from the schema.
- `damage`: damaged bytes of any file.
- `sources`: small valid files of every format that fleetsim reads.
- `case`: files, links and pipes of one case, with its commands.
- `cases`: fuzzed inputs for each part of the program.
- `plug_ins`: plug-ins of every kind that misbehave at one place.
- `strange_folders`: run folders of strangers, planted, edited and sealed again.
- `search`: loop that draws and runs cases, counts them and keeps those that break a rule.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.cases import TARGETS
from tests.fuzz.search import search


def main() -> int:
    """Fuzz, with a line for each target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--targets", nargs="+", choices=sorted(TARGETS), default=sorted(TARGETS))
    parser.add_argument("--keep", type=Path, default=Path("fuzz-faults"))
    args = parser.parse_args()
    total = sum(TARGETS[name][1] for name in args.targets)
    context = multiprocessing.get_context("spawn")
    faults: Counter[str] = Counter()
    with concurrent.futures.ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        tallies = {
            name: pool.submit(
                search, name, args.seed, -(-args.cases * share // total), keep=args.keep
            )
            for name, (_, share) in TARGETS.items()
            if name in args.targets
        }
        for name, tally in tallies.items():
            print(f"{name}: {tally.result().line()}", flush=True)
            faults += tally.result().faults
    for message, count in faults.most_common():
        print(f"{count:6d}  {message}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
