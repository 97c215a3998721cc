"""Session of measurements: all contestants run each work in turn, several times."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import environments, machine, runs
from benchmarks.contestants import CONTESTANTS, OURS, PEERS, Contestant
from benchmarks.export import export
from benchmarks.figures import first_round_s, peak_memory_mib, seconds_per_round
from benchmarks.flop import sample_flop
from benchmarks.results import Result, Store
from benchmarks.works import DataFolders, Work, changes_of, scenario_of, worksheet_of
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
    """Make all runs that are not in the store yet.

    Environments and data come first, so that what is missing shows before the first measurement.

    Raises:
        FleetsimError: fleetsim cannot run a work here, usually because its data are missing.
    """
    peers = _install(options)
    works = [_prepare(options, work) for work in options.works]
    store = options.store
    session = store.session()
    versions, peaks = session.get("versions", {}), session.get("peaks", [])
    for peer in PEERS:
        if peer.name in peers.pythons:
            versions[peer.name] = environments.versions(peer, options.home)
    for prepared in works:
        print(prepared.work.title, flush=True)
        peaks.append(_peaks())
        store.keep_session({"machine": machine.describe(), "versions": versions, "peaks": peaks})
        for repeat in range(1, options.repeats + 1):
            _measure_ours(options, prepared, repeat)
            _measure_peers(options, prepared, repeat, peers)


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
    flop = sample_flop(prepared.data, prepared.scenario.task.model.kind)
    for variant in prepared.work.variants:
        request = _request(options, prepared, runs.contestant_name(variant.name), repeat)
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
        if contestant.name not in options.contestants or not _supports(contestant, prepared.work):
            continue
        request = _request(options, prepared, contestant.name, repeat)
        if request is None:
            continue
        if contestant.peer in peers.faults:
            result = runs.failed(request, f"not installed: {peers.faults[contestant.peer]}")
        else:
            result = runs.run_peer(
                request,
                contestant,
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
    who = f"  {result.repeat}  {result.contestant:<16}"
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
