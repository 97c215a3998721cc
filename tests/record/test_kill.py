"""A run killed at any moment and resumed must end as if nothing had happened."""

import errno
import os
from pathlib import Path

import pytest

from fleetsim.errors import DataError
from fleetsim.record import checkpoint, tables
from fleetsim.record.recorder import RunRecorder
from tests.record.disk import Kill
from tests.record.rows import STARTED, client_columns, new_recorder, num_tasks_in, simulate

ROUNDS = 7
EVERY = 2


def run_to_end(folder: Path) -> str:
    recorder, state = RunRecorder.resume(folder, run=STARTED.identity, every_rounds=EVERY)
    simulate(recorder, state, ROUNDS)
    return recorder.finish([client_columns()])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_kill_at_any_file_operation_loses_nothing_that_was_checkpointed(is_before, disk, tmp_path):
    reference = tmp_path / "reference"
    reference.mkdir()
    disk.arm(None)
    expected = run_to_end(reference)
    num_operations = disk.num_done
    assert num_operations > 40

    for kill_at in range(num_operations):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        disk.arm(kill_at, is_before=is_before)
        with pytest.raises(Kill):
            run_to_end(folder)
        disk.arm(None)
        promised = checkpoint.read_latest(folder / "checkpoint", STARTED.identity)
        recorder, state = RunRecorder.resume(folder, run=STARTED.identity, every_rounds=EVERY)

        # What latest.json named is what the run goes on from, with all its rows.
        assert (state is None) == (promised is None)
        if promised is not None and state is not None:
            done = int(state["round"])
            assert done == promised.num_rounds == promised.num_rows("rounds")
            assert promised.num_rows("tasks") == sum(map(num_tasks_in, range(1, done + 1)))
        simulate(recorder, state, ROUNDS)
        assert recorder.finish([client_columns()]) == expected
        assert files_of(folder) == files_of(reference)


def test_content_is_on_the_disk_before_its_name_and_the_name_before_anything_else(disk, tmp_path):
    recorder = new_recorder(tmp_path, every_rounds=4)
    disk.log.clear()

    simulate(recorder, None, 4)

    # Segments of rounds, of tasks and of clients, state; then their names at once; latest.json.
    assert disk.log == [*["fsync", "replace"] * 4, "fsync", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("patience", [17, 19, 23])
def test_run_that_dies_again_and_again_still_gets_there(patience, disk, tmp_path):
    expected_folder, folder = tmp_path / "expected", tmp_path / "dying"
    expected = run_to_end(expected_folder)

    digest, num_deaths = None, 0
    while digest is None:
        disk.arm(patience)
        try:
            digest = run_to_end(folder)
        except Kill:
            num_deaths += 1
            assert num_deaths < 50

    assert num_deaths >= 2
    assert digest == expected


@pytest.mark.slow
def test_kill_at_any_file_operation_of_a_flush_leaves_a_run_that_goes_on(disk, tmp_path):
    reference = tmp_path / "reference"
    expected = run_to_end(reference)
    kill_at, was_killed = 0, True
    while was_killed:
        folder = tmp_path / str(kill_at)
        recorder = new_recorder(folder, every_rounds=EVERY)
        simulate(recorder, None, 5)
        disk.arm(kill_at)
        try:
            recorder.flush()
            was_killed = False
        except Kill:
            kill_at += 1
        disk.arm(None)

        assert run_to_end(folder) == expected
    assert kill_at > 10


@pytest.mark.slow
def test_interrupted_checkpoint_is_made_whole_by_flush_in_the_same_process(disk, tmp_path):
    disk.arm(None)
    new_recorder(tmp_path / "count", every_rounds=1)
    first = disk.num_done
    kill_at, was_interrupted = first, True
    while was_interrupted:
        folder = tmp_path / str(kill_at)
        disk.arm(kill_at)
        recorder = new_recorder(folder, every_rounds=4)
        try:
            simulate(recorder, None, 4)
            was_interrupted = False
        except Kill:
            kill_at += 1
        disk.arm(None)
        recorder.flush()

        _, state = RunRecorder.resume(folder, run=STARTED.identity, every_rounds=4)
        assert state is not None
        assert int(state["round"]) == 4
        tasks = tables.read(folder / "tasks.parquet", "tasks", hint="")
        assert tasks["task"].to_pylist() == list(range(6))
    assert kill_at - first > 10


@pytest.mark.parametrize("victim", ["state-4.npz", "tasks-0-5.parquet", "latest.json"])
def test_full_disk_says_so_and_leaves_the_previous_checkpoint(victim, monkeypatch, tmp_path):
    real, is_full, home = os.replace, True, tmp_path / "checkpoint"

    def replace(source: Path, target: Path) -> None:
        if is_full and Path(target).name == victim and (home / "latest.json").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    recorder = new_recorder(tmp_path, every_rounds=2)
    with pytest.raises(DataError) as caught:
        simulate(recorder, None, 4)

    assert str(caught.value).startswith(f"{home / victim}: cannot be written: [Errno 28] No space")
    assert "--resume" in str(caught.value)
    latest = checkpoint.read_latest(home, STARTED.identity)
    assert latest is not None
    assert latest.num_rounds == 2
    checkpoint.check(home, latest)
    assert not list(home.glob(".*"))
    is_full = False
    recorder.flush()
    assert int(RunRecorder.resume(tmp_path, run=STARTED.identity, every_rounds=2)[1]["round"]) == 4  # type: ignore[index]
