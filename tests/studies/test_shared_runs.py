"""Runs that another process is writing: waited for and taken, or begun when it has ended."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fleetsim.record import run_folder
from fleetsim.record.manifest import PlatformRecord, read_manifest, write_manifest
from fleetsim.record.run_folder import RunIsBusyError, locked
from fleetsim.record.saved_run import open_run
from fleetsim.simulate import run
from fleetsim.studies.backends import LocalProcesses
from fleetsim.studies.execution import execute
from fleetsim.studies.run_order import (
    carry_out,
    carry_out_and_return,
    order_of,
    receive,
)
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from fleetsim.studies.study_setup import mixtures
from tests.studies.small_studies import AtOnce, Silent, executed, loaded, written
from tests.studies.test_processes import processes_below

MOST_S = 300.0


class Releases(Silent):
    """Ends the other process, which holds a lock, while this one waits for it."""

    def __init__(self, lock: contextlib.ExitStack, at_end=lambda: None) -> None:
        super().__init__()
        self._lock, self._at_end = lock, at_end
        self._num_looks = 0

    def progress(self, updates):
        self._num_looks += 1
        if self._num_looks == 6:
            self._at_end()
            self._lock.close()


@contextlib.contextmanager
def other_process(folder: Path):
    """Hold the lock of a run folder as another process does."""
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as held:
        held.enter_context(locked(folder))
        yield held


@pytest.mark.slow
def test_the_result_of_another_process_is_taken(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    first, executor = study.runs[0], AtOnce()
    made = run(first.scenario, out=tmp_path / "made", train=False, run_key=first.key).folder

    def finish():
        shutil.copytree(
            made, store.folder(first), dirs_exist_ok=True, ignore=shutil.ignore_patterns(".lock")
        )

    with other_process(store.folder(first)) as held:
        watcher = Releases(held, finish)
        done = executed(study, store.home, executor, watcher)

    assert (done.num_found, done.num_made, done.num_taken, done.failures) == (0, 3, 1, {})
    assert executor.num_tasks == 3
    assert watcher.events[1] == ("waiting", "random, seed 1")
    assert watcher.events[-1] == ("finished", "random, seed 1")


@pytest.mark.slow
def test_a_run_whose_process_ends_without_a_result_is_begun_here(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")

    with other_process(store.folder(study.runs[0])) as held:
        watcher = Releases(held)
        done = executed(study, store.home, watcher=watcher)

    assert (done.num_made, done.num_taken, done.failures) == (4, 0, {})
    kinds = [kind for kind, text in watcher.events if text == "random, seed 1"]
    assert kinds == ["waiting", "started", "finished"]


@pytest.mark.slow
def test_a_run_that_another_process_begins_meanwhile_is_not_a_failure(tmp_path):
    study, store = loaded(tmp_path, seeds=[1], arms={"random": {}}), RunStore(tmp_path / "home")
    folder = store.folder(study.runs[0])
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as held:

        class Meanwhile(AtOnce):
            """Another process takes the lock while the task is carried out."""

            def submit(self, task, /, *arguments, **named):
                if self.num_tasks == 0:
                    held.enter_context(locked(folder))
                return super().submit(task, *arguments, **named)

        watcher, executor = Releases(held), Meanwhile()
        done = executed(study, store.home, executor, watcher)

    assert (done.num_made, done.failures, executor.num_tasks) == (1, {}, 2)
    kinds = [kind for kind, _ in watcher.events]
    assert kinds == ["begin", "started", "waiting", "started", "finished"]


def test_a_run_that_another_process_has_completed_is_kept(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    first, second = study.runs[:2]
    files = carry_out_and_return(order_of(first, travels=True))
    receive(files, first, store.folder(first))
    before = (store.folder(first) / "manifest.json").stat().st_mtime_ns

    receive(files, first, store.folder(first))

    assert (store.folder(first) / "manifest.json").stat().st_mtime_ns == before
    store.folder(second).mkdir()
    with locked(store.folder(second)), pytest.raises(RunIsBusyError, match="another process"):
        receive(files, second, store.folder(second))


@pytest.mark.slow
def test_a_damaged_run_that_another_process_holds_is_not_renamed(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    executed(study, store.home)
    first = study.runs[0]
    (store.folder(first) / "tasks.parquet").write_bytes(b"")

    with locked(store.folder(first)):
        assert store.set_damaged_aside(first) is None

    assert store.folder(first).is_dir()
    assert store.set_damaged_aside(first) is not None
    assert not store.folder(first).exists()


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("is_killed", [False, True], ids=["ends", "killed"])
def test_two_studies_in_two_processes_share_a_run(is_killed, tmp_path):
    long = {"fleet.size": 40, "server.cohort": 10, "stop.rounds": 600}
    for name, arms in (("one", {"random": {}}), ("two", {"r": {}, "of 5": {"server.cohort": 5}})):
        (tmp_path / name).mkdir()
        written(tmp_path / name, name=name, arms=arms, seeds=[1], overrides=long)
    home = tmp_path / "home"

    def started(name: str) -> subprocess.Popen[str]:
        verb = [sys.executable, "-m", "fleetsim", "study", "run"]
        words = [*verb, str(tmp_path / name / "small.yaml"), "--home", str(home), "--workers", "1"]
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
        )

    study, store = load_study(tmp_path / "two" / "small.yaml"), RunStore(home)
    shared, other = study.runs
    one = started("one")
    deadline = time.monotonic() + MOST_S
    while not run_folder.is_busy(store.folder(shared)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # The first one stands still, however long the second one takes to begin.
    making = [one.pid, *processes_below(one.pid)]
    for process in making:
        os.kill(process, signal.SIGSTOP)
    two = started("two")
    assert two.stdout is not None
    assert "0 of 2 runs are complete" in two.stdout.readline()
    assert two.stdout.readline().startswith("r, seed 1 is being made by another process")
    if is_killed:
        one.send_signal(signal.SIGKILL)
    for process in making[is_killed:]:
        os.kill(process, signal.SIGCONT)
    output, _ = two.communicate(timeout=MOST_S)
    one.communicate(timeout=MOST_S)

    assert two.returncode == 0, output
    assert one.returncode == (-signal.SIGKILL if is_killed else 0)
    assert "failed" not in output
    for planned in (shared, other):
        alone = run(planned.scenario, out=tmp_path / planned.key, train=False)
        assert open_run(store.folder(planned)).manifest.digest == alone.manifest.digest


NUM_JOBS = 6 * 5
"""Trainings of a run: six rounds of five clients."""
SHORT = {"overrides": {"task.local.epochs": 5, "stop.rounds": 6}, "seeds": [1]}


def manifests_of(store: Any, study: Any) -> list[Any]:
    return [store.open(planned).manifest for planned in study.runs]


@pytest.mark.slow
def test_two_studies_at_once_train_once_and_have_the_bytes_of_separate_runs(tmp_path):
    study: Any = load_study("eight-worlds", SHORT)
    separate = RunStore(tmp_path, caches_results=False)
    assert not execute(study, separate, LocalProcesses(2), Silent()).failures
    worlds = list(study.settings.vary["world"].items())
    store, begun = RunStore(tmp_path / "shared"), []
    for name, half in (("even", dict(worlds[::2])), ("odd", dict(worlds[1::2]))):
        changes = SHORT | {"name": name, "vary": {"world": half}, "baseline_level": min(half)}
        options = [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
        words = ("study", "run", "eight-worlds", *options, f"--home={store.home}", "--workers=1")
        begun.append(subprocess.Popen([sys.executable, "-m", "fleetsim", *words, "--quiet"]))

    assert [process.wait(600) for process in begun] == [0, 0]
    manifests, apart = manifests_of(store, study), manifests_of(separate, study)
    digests = [manifest.digest for manifest in manifests]
    assert digests == [manifest.digest for manifest in apart]
    assert len(set(digests)) == 8  # other seconds or joules in each
    uses = [manifest.results_cache for manifest in manifests]
    assert sum(use.entries_computed for use in uses) == NUM_JOBS
    assert [use.entries_found + use.entries_computed for use in uses] == [NUM_JOBS] * 8
    assert sum(use.rounds_found for use in uses) >= 6 * 6
    assert {use.unit for use in uses} == {"job"}
    assert {manifest.results_cache for manifest in apart} == {None}


@pytest.mark.slow
def test_a_run_is_repeated_in_another_world(tmp_path, command, without_figures, monkeypatch):
    """Two of five clients crash in the second of four rounds, and nobody else."""
    monkeypatch.chdir(tmp_path)
    options = ("--set", "stop.rounds=4", "--no-report", "--quiet")
    crashes = ("--set", "fleet.crash_per_hour=100")
    first = command("run", "digits-scaffold", *options, "--results-cache", "runs/results-cache")
    alone = command("run", "digits-scaffold", *options, *crashes)
    folder, other = first.out.strip(), open_run(alone.out.strip())

    wifi = command("retime", folder, "--set", "fleet.network.kind=wifi", "--json")
    crashed = command("retime", folder, *crashes, "--no-report")
    unnamed = command("retime", folder)

    record = json.loads(wifi.out)
    assert (record["first_other_round"], record["before"]) == (None, folder)
    assert record["results_cache"]["rounds_found"] == record["num_rounds"] == 4
    assert record["digest"] != open_run(folder).manifest.digest
    assert f"choices: those of {folder} before round 2, from which on other" in crashed.out
    assert other.manifest.digest in crashed.out
    # The three that deliver in round 2 have trained the same; rounds 3 and 4 have another model.
    assert "the training of 2 of 4 rounds was found" in crashed.err
    assert (unnamed.code, "name the other world, as --set" in unnamed.err) == (2, True)


def begun(study, folder: Path) -> None:
    """Begin the first run, and stop it after its first round."""

    def stop(scenario, progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(order_of(study.runs[0], travels=False), folder, on_progress=stop)
    assert read_manifest(folder).status == "interrupted"


def changed(folder: Path, **changes) -> None:
    write_manifest(folder, read_manifest(folder).model_copy(update=changes))


def finished(study, folder: Path) -> list[int]:
    """Finish the run; return the rounds that were simulated now."""
    rounds: list[int] = []
    order = order_of(study.runs[0], travels=False)
    carry_out(order, folder, on_progress=lambda scenario, progress: rounds.append(progress.round))
    return rounds


@pytest.fixture
def study(tmp_path):
    return loaded(tmp_path, overrides={"fleet.size": 12, "server.cohort": 3, "stop.rounds": 3})


def test_a_begun_run_continues(study, tmp_path):
    begun(study, tmp_path / "run")

    assert finished(study, tmp_path / "run") == [2, 3]


@pytest.mark.slow
def test_a_run_begun_on_another_platform_begins_anew(study, tmp_path):
    folder = tmp_path / "run"
    begun(study, folder)
    other = PlatformRecord.of({"machine": "another"}, {})
    changed(folder, platforms=(other,))

    assert finished(study, folder) == [1, 2, 3]
    result = open_run(folder)
    assert other not in result.manifest.platforms
    alone = run(study.runs[0].scenario, out=tmp_path / "alone", train=False)
    assert result.manifest.digest == alone.manifest.digest


def test_a_run_begun_by_another_version_begins_anew(study, tmp_path):
    folder = tmp_path / "run"
    begun(study, folder)
    here = read_manifest(folder).versions
    changed(folder, versions=here | {"fleetsim": "0.0.1"})

    assert finished(study, folder) == [1, 2, 3]
    assert read_manifest(folder).versions == here


@pytest.mark.slow
def test_a_mixed_study_says_what_differs_and_how_many_runs_have_it(study, tmp_path):
    store = RunStore(tmp_path / "home")
    executed(study, store.home)
    folder = store.folder(study.runs[0])
    manifest = read_manifest(folder)
    here = manifest.platforms[0]
    other = PlatformRecord.of({**here.features, "numpy": "1.0"}, here.forms)

    assert list(mixtures(study, store)) == []

    changed(folder, platforms=(other,), versions=manifest.versions | {"fleetsim": "0.0.1"})
    platforms, versions = mixtures(study, store)
    assert f"on 2 numerical platforms ({here.id}: 3, {other.id}: 1)" in platforms
    numpy = here.features["numpy"]
    assert f"numpy (1.0, {numpy})" in platforms or f"numpy ({numpy}, 1.0)" in platforms
    assert "2 versions of fleetsim" in versions
    assert "0.0.1: 1" in versions
