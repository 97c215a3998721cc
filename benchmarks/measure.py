"""Session of measurements: all contestants run each work in turn, several times."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import environments, machine, runs, summary
from benchmarks.contestants import CONTESTANTS, PEERS, Contestant
from benchmarks.export import export
from benchmarks.figures import first_round_s, peak_memory_mib, seconds_per_round
from benchmarks.flop import training_flop
from benchmarks.peers.worksheet import form_of
from benchmarks.results import Result, Store
from benchmarks.works import (
    OURS,
    DataFolders,
    Work,
    changes_of,
    contestant_name,
    scenario_of,
    sizes_of,
    worksheet_of,
)
from fleetsim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a session."""

    works: tuple[Work, ...]
    contestants: tuple[str, ...]
    repeats: int
    rounds: int | None
    """Number of rounds for all works; None: each work's own number."""
    workers: int
    """Processes, threads or actors that each contestant may use."""
    timeout_s: float
    folders: DataFolders
    home: Path
    """Folder of the environments."""
    store: Store


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Work whose data are exported, ready for all contestants."""

    work: Work
    rounds: int
    scenario: Scenario
    changes: list[str]
    """Overrides of the scenario file, `KEY=VALUE` each."""
    data: Path


@dataclass(frozen=True, slots=True)
class _Peers:
    """Environments of the peers, by name."""

    pythons: dict[str, Path]
    faults: dict[str, str]
    """Errors of those that could not be installed."""


def measure(options: Options) -> None:
    """Make all runs that are not in the store yet, and write the record of the machine.

    Environments and data come first, so that what is missing shows before the first measurement.

    Raises:
        FleetsimError: fleetsim cannot run a work here, usually because its data are missing.
    """
    peers = _install(options)
    works = [_prepare(options, work) for work in options.works]
    store = options.store
    session = store.session()
    versions, peaks = session.get("versions", {}), session.get("peaks", [])
    dates = session.get("dates", {})
    for peer in PEERS:
        if peer.name in peers.pythons:
            versions[peer.name] = environments.versions(peer, options.home)
    for prepared in works:
        print(prepared.work.title, flush=True)
        peaks.append(_peaks())
        dates.setdefault(prepared.work.name, datetime.date.today().isoformat())
        store.keep_session(
            {
                "machine": machine.describe(),
                "versions": versions,
                "not_installed": {
                    peer: why
                    for peer, why in (session.get("not_installed", {}) | peers.faults).items()
                    if peer not in peers.pythons
                },
                "peaks": peaks,
                "dates": dates,
            }
        )
        for repeat in range(1, options.repeats + 1):
            _measure_ours(options, prepared, repeat)
            _measure_peers(options, prepared, repeat, peers)
        summary.write(summary.summarise(store.all(), store.session()), store.machine)


def _install(options: Options) -> _Peers:
    """Install the environments of the peers that are measured."""
    wanted = {who.peer for who in CONTESTANTS if who.name in options.contestants}
    found = _Peers({}, {})
    for peer in PEERS:
        if peer.name not in wanted:
            continue
        print(f"environment of {peer.name}: {peer.requirement}", flush=True)
        try:
            found.pythons[peer.name] = environments.ensure(peer, options.home)
        except environments.InstallError as fault:
            print(f"  not installed: {fault}", flush=True)
            found.faults[peer.name] = str(fault)
    return found


def _prepare(options: Options, work: Work) -> _Prepared:
    """Export the data of a work."""
    rounds = options.rounds or work.rounds
    changes = changes_of(work, options.folders, rounds)
    scenario = scenario_of(work, changes)
    data = export(scenario, options.folders.own_data)
    return _Prepared(work, rounds, scenario, changes, data)


def _peaks() -> dict[str, float]:
    """Measure the rates of matrix products in a separate process."""
    command = [sys.executable, "-m", "benchmarks.peaks"]
    done = subprocess.run(command, cwd=runs.ROOT, capture_output=True, text=True, check=True)
    rates: dict[str, float] = json.loads(done.stdout)
    return rates


def _measure_ours(options: Options, prepared: _Prepared, repeat: int) -> None:
    """Make one run of each variant of fleetsim."""
    if OURS not in options.contestants:
        return
    scenario, sizes = prepared.scenario, sizes_of(prepared.work, prepared.scenario)
    flop = training_flop(scenario.task.model.kind, form_of(prepared.data), sizes)
    for variant in prepared.work.variants:
        request = _request(options, prepared, contestant_name(variant.name), repeat)
        if request is not None:
            changes = [*prepared.changes, *variant.changes]
            result = runs.run_ours(
                request, changes, sample_flop=flop, workers=options.workers, store=options.store
            )
            _keep(options.store, result)


def _measure_peers(options: Options, prepared: _Prepared, repeat: int, peers: _Peers) -> None:
    """Make one run of each peer that has the kind of server that the work needs."""
    worksheet = worksheet_of(prepared.work, prepared.scenario, data=prepared.data)
    for contestant in CONTESTANTS:
        is_wanted = contestant.name in options.contestants and contestant.peer in peers.pythons
        if not is_wanted or not _supports(contestant, prepared.work):
            continue
        for setting in contestant.settings(prepared.work):
            request = _request(options, prepared, contestant.name_in(setting), repeat)
            if request is not None:
                result = runs.run_peer(
                    request,
                    contestant,
                    setting,
                    worksheet,
                    python=peers.pythons[contestant.peer],
                    cores=options.workers,
                    store=options.store,
                )
                _keep(options.store, result)


def _supports(contestant: Contestant, work: Work) -> bool:
    """Return True if a contestant has the kind of server that the work needs."""
    return contestant.async_note is None or not work.is_asynchronous


def _request(
    options: Options, prepared: _Prepared, name: str, repeat: int
) -> runs.RunRequest | None:
    """Return the request of a run; None if the store has its result."""
    work, rounds = prepared.work, prepared.rounds
    if options.store.find(work.name, name, repeat, rounds) is not None:
        return None
    return runs.RunRequest(work, name, repeat, rounds, options.timeout_s)


def _keep(store: Store, result: Result) -> None:
    """Store the result of a run and print a summary."""
    store.keep(result)
    who = f"  {result.repeat}  {result.contestant:<17}"
    if result.error is not None:
        print(f"{who} FAILED: {result.error}", flush=True)
        return
    accuracy = "-" if result.accuracy is None else f"{result.accuracy:.3f}"
    memory_mib = peak_memory_mib(result, result.round_ended_at_s[-1])
    print(
        f"{who} {seconds_per_round(result):9.4f} s/round, first after"
        f" {first_round_s(result):5.1f} s, {memory_mib:5.0f} MiB, accuracy {accuracy}",
        flush=True,
    )
