"""Records of machines: figures of all works that were measured on one, from which the page is made.

`benchmarks/machines/` has one for each machine. A record holds figures only, not the single runs;
a new one of the same processor and number of cores replaces the works that it has, and keeps the
others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from benchmarks import figures as f
from benchmarks.figures import Figures, SimulatorCost, Spread
from benchmarks.results import Result
from benchmarks.works import WORKS, Work
from fleetsim.errors import DataError
from fleetsim.record import atomic_files

MACHINES = Path(__file__).parent / "machines"


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """Figures of one work on one machine."""

    measured_on: str
    """Date of the first run, ISO 8601."""
    rounds: tuple[int, ...]
    """Different numbers of rounds of its runs."""
    runs: tuple[int, ...]
    """Different numbers of runs of the contestants."""
    gflop: float | None
    """GFLOP of a round; None: unknown."""
    figures: dict[str, Figures]
    """By name of the contestant in the results, in any order."""
    costs: dict[str, SimulatorCost]
    """Host time outside training, by name of the variant of fleetsim in the results."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine, with what was measured on it."""

    facts: dict[str, str]
    """Processor, cores, memory, versions; see `machine.describe`."""
    versions: dict[str, dict[str, str]]
    """Versions of the peers' distributions, by peer."""
    not_installed: dict[str, str]
    """Reasons why peers could not be installed, by peer."""
    peaks: dict[str, Spread]
    """Rates of matrix products, GFLOP/s, by library and threads; see `peaks`."""
    works: dict[str, WorkRecord]

    @property
    def name(self) -> str:
        """Name of its file: the processor and the number of cores."""
        words = re.findall(r"[a-z0-9]+", f"{self.facts['processor']} {self.facts['cores']}".lower())
        return "-".join([*words, "cores"])


_MACHINE = TypeAdapter(Machine)


def summarise(results: Sequence[Result], session: Mapping[str, Any]) -> Machine:
    """Return the record of a session's runs, as `results.Store` keeps both."""
    rates: dict[str, list[float]] = {}
    for peaks in session.get("peaks", []):
        for name, rate in peaks.items():
            rates.setdefault(name, []).append(rate)
    works = {}
    for work in WORKS:
        found = [result for result in results if result.work == work.name]
        if found:
            works[work.name] = _record(found, session["dates"][work.name])
    return Machine(
        facts=dict(session["machine"]),
        versions=dict(session.get("versions", {})),
        not_installed=dict(session.get("not_installed", {})),
        peaks={name: f.spread_of(values) for name, values in rates.items()},
        works=works,
    )


def _record(results: Sequence[Result], measured_on: str) -> WorkRecord:
    names = dict.fromkeys(result.contestant for result in results)
    of = {name: [x for x in results if x.contestant == name] for name in names}
    costs = {name: f.simulator_cost(runs) for name, runs in of.items()}
    counts = {name: sum(run.error is None for run in runs) for name, runs in of.items()}
    return WorkRecord(
        measured_on=measured_on,
        rounds=tuple(sorted({result.rounds for result in results})),
        runs=tuple(sorted(set(counts.values()))),
        gflop=f.gflop_per_round(results),
        figures={name: f.figures(runs) for name, runs in of.items()},
        costs={name: cost for name, cost in costs.items() if cost is not None},
    )


def read(path: Path) -> Machine:
    """Read a record.

    Raises:
        DataError: there is none, or it is not one.
    """
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; name a machine.json that `python -m benchmarks` made"
        )
    try:
        return _MACHINE.validate_json(path.read_bytes())
    except ValidationError as fault:
        first = fault.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(
            f"{path}: {place}: {first['msg']}; name a machine.json that `python -m benchmarks` made"
        ) from fault


def write(machine: Machine, path: Path) -> None:
    """Write a record, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _MACHINE.dump_json(machine, indent=1)
    atomic_files.write(path, text + b"\n", hint="make its folder writable")


def all_machines(folder: Path) -> list[Machine]:
    """Return the records in a folder, by name."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def merge(path: Path, folder: Path) -> Path:
    """Put a record into a folder, beside or into those that are there; return its file.

    Raises:
        DataError: it is none, or its runs had fewer or more rounds than the works have.
    """
    new = read(path)
    for work in WORKS:
        rounds = new.works[work.name].rounds if work.name in new.works else (work.rounds,)
        if rounds != (work.rounds,):
            ran = " and ".join(map(str, rounds))
            raise DataError(
                f"{path}: works.{work.name}: runs of {ran} rounds, the work has {work.rounds};"
                " measure it without --rounds"
            )
    target = folder / f"{new.name}.json"
    if target.is_file():
        new = replace(new, works={**read(target).works, **new.works})
    write(new, target)
    return target


# --- ratios -------------------------------------------------------------------------------------


def ratios(work: Work, record: WorkRecord, names: Iterable[str]) -> dict[str, float]:
    """Return seconds per round over fleetsim's, of those contestants that ran."""
    ours = record.figures.get(work.base)
    found = {name: record.figures[name].round_s for name in names if name in record.figures}
    if ours is None or ours.round_s is None:
        return {}
    return {
        name: spread.median / ours.round_s.median
        for name, spread in found.items()
        if spread is not None
    }
