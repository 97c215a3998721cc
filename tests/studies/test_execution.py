"""Execution of studies: what is made, repeated, shared and on record."""

from __future__ import annotations

import shutil
from concurrent.futures import CancelledError, Future

import pytest

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.record.manifest import MANIFEST
from fleetsim.record.saved_run import open_run
from fleetsim.simulate import run
from fleetsim.studies.backends import RemoteTasks
from fleetsim.studies.execution import execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.run_tables import tables_of
from tests.studies.small_studies import AtOnce, Silent, loaded


def carried_out(study, home, executor=None, watcher=None):
    return execute(study, RunStore(home), RemoteTasks(executor or AtOnce()), watcher or Silent())


def test_the_runs_of_a_study_are_the_runs_of_their_scenarios(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")

    done = carried_out(study, store.home)

    assert (done.num_found, done.num_made, done.failures) == (0, 4, {})
    for number, planned in enumerate(study.runs):
        alone = run(planned.scenario, out=tmp_path / str(number), train=False)
        found = store.open(planned)
        assert found is not None
        assert found.manifest.digest == alone.manifest.digest


def test_only_missing_runs_are_made(tmp_path):
    home = tmp_path / "home"
    carried_out(loaded(tmp_path), home)
    executor = AtOnce()

    again = carried_out(loaded(tmp_path), home, executor)
    more = carried_out(loaded(tmp_path, seeds=[1, 2, 3]), home, executor)

    assert (again.num_found, again.num_made) == (4, 0)
    assert (more.num_found, more.num_made) == (4, 2)
    assert executor.num_tasks == 2


def test_two_studies_share_runs(tmp_path):
    home = tmp_path / "home"
    carried_out(loaded(tmp_path), home)

    other = carried_out(
        loaded(tmp_path, name="other", arms={"also random": {}, "of 6": {"server.cohort": 6}}), home
    )

    assert (other.num_found, other.num_made) == (2, 2)


def test_a_failed_run_is_repeated_after_the_others(tmp_path):
    watcher, executor = Silent(), AtOnce(OSError(28, "disk full"))

    done = carried_out(loaded(tmp_path), tmp_path / "home", executor, watcher)

    assert done.failures == {}
    assert executor.num_tasks == 5
    kinds = [kind for kind, _ in watcher.events]
    assert kinds.count("repeated") == 1
    assert watcher.events[-1] == ("finished", "random, seed 1")


def test_a_run_that_fails_twice_is_on_record_and_the_others_go_on(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    fault = DataError("net.csv:3: broken; repair it")
    executor = AtOnce(fault, None, None, None, fault)

    done = carried_out(study, store.home, executor)

    first = study.runs[0]
    assert done.failures == {first.key: "net.csv:3: broken; repair it"}
    assert done.num_made == 3
    rows = tables_of(study, store).runs
    assert rows["status"].tolist() == ["failed", "done", "done", "done"]
    assert rows["reason"].tolist()[0] == "net.csv:3: broken; repair it"


def test_a_damaged_run_fails_in_one_line_and_the_others_go_on(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    carried_out(study, store.home)
    first, second = study.runs[:2]
    whole = (store.folder(first) / MANIFEST).read_bytes()
    (store.folder(first) / MANIFEST).write_bytes(whole[: len(whole) // 2])
    shutil.rmtree(store.folder(second))

    done = carried_out(study, store.home)

    assert (done.num_found, done.num_made) == (2, 1)
    assert list(done.failures) == [first.key]
    reason = done.failures[first.key]
    assert reason.startswith(f"delete {store.folder(first)} and run the study again")
    assert "\n" not in reason
    assert store.status(second) == "done"
    rows = tables_of(study, store).runs
    assert rows["status"].tolist() == ["failed", "done", "done", "done"]
    assert rows["reason"].tolist()[0] == reason


def test_a_run_that_its_executor_cancels_is_repeated(tmp_path):
    watcher = Silent()

    done = carried_out(loaded(tmp_path), tmp_path / "home", AtOnce(CancelledError()), watcher)

    assert done.failures == {}
    assert ("repeated", "random, seed 1: its executor has cancelled it") in watcher.events


def test_a_failure_is_forgotten_when_the_run_succeeds(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    carried_out(study, store.home, AtOnce(OSError("a"), None, None, None, OSError("b")))

    carried_out(study, store.home)

    assert store.failures("small") == {}
    assert tables_of(study, store).runs["status"].eq("done").all()


def test_files_of_another_run_are_not_accepted(tmp_path):
    class Mixed(AtOnce):
        """Returns the tasks of the first run with every manifest."""

        kept: bytes = b""

        def submit(self, task, /, *arguments, **named):
            files = super().submit(task, *arguments, **named).result()
            self.kept = self.kept or files["tasks.parquet"]
            mixed: Future[dict[str, bytes]] = Future()
            mixed.set_result({**files, "tasks.parquet": self.kept})
            return mixed

    done = carried_out(loaded(tmp_path), tmp_path / "home", Mixed())

    assert done.num_made == 1
    assert len(done.failures) == 3


def test_a_study_is_not_executed_twice_at_a_time(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")

    with store.locked("small"), pytest.raises(DataError, match="another process is running"):
        carried_out(study, store.home)


def test_own_files_travel_and_the_run_says_where_they_are_here(tmp_path):
    own = tmp_path / "here" / "mine.yaml"
    own.parent.mkdir()
    shutil.copy(bundled.folder("devices") / "pixel-6.yaml", own)
    study = loaded(tmp_path, overrides={"stop.rounds": 2, "fleet.devices": {str(own): 1.0}})
    store = RunStore(tmp_path / "home")
    alone = run(study.runs[0].scenario, out=tmp_path / "alone", train=False)
    content = own.read_bytes()

    class Elsewhere(AtOnce):
        """Another machine, where the file does not exist."""

        def submit(self, task, /, *arguments, **named):
            own.unlink()
            future = super().submit(task, *arguments, **named)
            own.write_bytes(content)
            return future

    carried_out(study, store.home, Elsewhere())

    found = store.open(study.runs[0])
    assert found is not None
    assert found.manifest.digest == alone.manifest.digest
    assert found.manifest.scenario_hash == alone.manifest.scenario_hash
    assert list(found.scenario["fleet"]["devices"]) == [str(own)]
    assert open_run(found.folder).clients["device"].unique().tolist() == ["mine"]
