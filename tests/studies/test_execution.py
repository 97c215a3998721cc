"""Execution of studies: what is made, repeated, shared and on record."""

import shutil
from concurrent.futures import CancelledError
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetsim import bundled
from fleetsim.errors import DataError
from fleetsim.record.manifest import MANIFEST
from fleetsim.record.saved_run import open_run
from fleetsim.simulate import run
from fleetsim.studies.run_order import carry_out, order_of
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.run_tables import tables_of
from tests.studies.small_studies import AtOnce, Silent, executed, loaded


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete")
    executed(loaded(folder), folder / "home")
    return folder / "home"


@pytest.fixture
def home(complete, tmp_path):
    """Home with the four complete runs of the small study."""
    return shutil.copytree(complete, tmp_path / "home")


@pytest.mark.slow
def test_the_runs_of_a_study_are_the_runs_of_their_scenarios(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")

    done = executed(study, store.home)

    assert (done.num_found, done.num_made, done.failures) == (0, 4, {})
    for number, planned in enumerate(study.runs):
        alone = run(planned.scenario, out=tmp_path / str(number), train=False)
        result = store.open(planned)
        assert result is not None
        assert result.manifest.digest == alone.manifest.digest


@pytest.mark.slow
def test_only_runs_that_no_study_has_made_are_made(home, tmp_path):
    executor = AtOnce()

    again = executed(loaded(tmp_path), home, executor)
    more = executed(loaded(tmp_path, seeds=[1, 2, 3]), home, executor)
    shared = {"also random": {}, "of 6": {"server.cohort": 6}}
    other = executed(loaded(tmp_path, name="other", arms=shared), home)

    assert (again.num_found, again.num_made) == (4, 0)
    assert (more.num_found, more.num_made) == (4, 2)
    assert executor.num_tasks == 2
    assert (other.num_found, other.num_made) == (2, 2)  # of another study with one arm in common


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (OSError(28, "disk full"), "OSError: [Errno 28] disk full"),
        (CancelledError(), "its executor has cancelled it"),
    ],
)
def test_a_failed_run_is_repeated_after_the_others(tmp_path, fault, text):
    watcher, executor = Silent(), AtOnce(fault)

    assert executed(loaded(tmp_path), tmp_path / "home", executor, watcher).failures == {}
    assert executor.num_tasks == 5
    repeated = [text for kind, text in watcher.events if kind == "repeated"]
    assert repeated == [f"random, seed 1: {text}"]
    assert watcher.events[-1] == ("finished", "random, seed 1")


@pytest.mark.slow
def test_a_run_that_fails_twice_is_on_record_until_it_succeeds_and_the_others_go_on(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    fault = DataError("net.csv:3: broken; repair it")
    executor = AtOnce(fault, None, None, None, fault)

    done = executed(study, store.home, executor)

    assert done.failures == {study.runs[0].key: "net.csv:3: broken; repair it"}
    assert done.num_made == 3
    rows = tables_of(study, store).runs
    assert rows["status"].tolist() == ["failed", "done", "done", "done"]
    assert rows["reason"].tolist()[0] == "net.csv:3: broken; repair it"
    executed(study, store.home)
    assert store.failures("small") == {}
    assert tables_of(study, store).runs["status"].eq("done").all()


def cut(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def add_a_row(path):
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)


DAMAGES = [
    (MANIFEST, cut, "is not JSON"),
    ("tasks.parquet", cut, "is not a whole parquet file"),
    ("tasks.parquet", add_a_row, "was changed after the run"),
    ("rounds.parquet", Path.unlink, "cannot be read"),
    ("scenario.yaml", cut, "scenario.yaml"),
]


@pytest.mark.parametrize(("name", "damage", "text"), DAMAGES)
def test_a_damaged_run_is_named_by_the_report_and_left_out(home, tmp_path, name, damage, text):
    study, store = loaded(tmp_path), RunStore(home)
    first = study.runs[0]
    damage(store.folder(first) / name)

    tables = tables_of(study, store)

    assert tables.runs["status"].tolist() == ["damaged", "done", "done", "done"]
    reason = tables.runs["reason"].tolist()[0]
    assert str(store.folder(first) / name) in reason
    assert text in reason
    assert reason.endswith("; `fleetsim study run` repeats the run and keeps this folder")
    assert "\n" not in reason
    assert store.damage(first) == reason
    assert store.damage(study.runs[1]) is None
    for frame in (tables.costs, tables.ledgers):
        assert set(zip(frame["arm"], frame["seed"], strict=True)) == {
            ("cohort of 5", 1), ("random", 2), ("cohort of 5", 2)
        }  # fmt: skip


@pytest.mark.slow
def test_a_run_that_is_damaged_again_is_set_aside_beside_the_first(home, tmp_path):
    study, store = loaded(tmp_path), RunStore(home)
    folder = store.folder(study.runs[0])
    for _ in range(2):
        cut(folder / "clients.parquet")
        executed(study, store.home)

    names = {path.name for path in folder.parent.glob(f"{folder.name}*")}
    assert names == {folder.name, f"{folder.name}.damaged", f"{folder.name}.damaged-2"}


def test_a_damaged_run_that_cannot_be_set_aside_is_a_failure_and_the_others_go_on(home, tmp_path):
    study, store = loaded(tmp_path), RunStore(home)
    first, second = study.runs[:2]
    folder = store.folder(first)
    cut(folder / "tasks.parquet")
    shutil.rmtree(store.folder(second))
    (folder / ".lock").unlink(missing_ok=True)
    (folder / ".lock").mkdir()

    done = executed(study, store.home)

    assert list(done.failures) == [first.key]
    assert "is not the file of a lock" in done.failures[first.key]
    assert (done.num_found, done.num_made) == (2, 1)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_set_aside_too(tmp_path):
    rounds = {"fleet.size": 12, "server.cohort": 3, "stop.rounds": 3}
    study, store = loaded(tmp_path, overrides=rounds), RunStore(tmp_path / "home")
    first = study.runs[0]

    def stop(scenario, progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(order_of(first, travels=False), store.folder(first), on_progress=stop)
    cut(store.folder(first) / "checkpoint" / "latest.json")
    done = executed(study, store.home)

    assert (done.num_made, done.failures) == (4, {})
    assert (store.folder(first).parent / f"{store.folder(first).name}.damaged").is_dir()


def test_a_study_is_not_executed_twice_at_a_time(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")

    with store.locked("small"), pytest.raises(DataError, match="another process is running"):
        executed(study, store.home)


@pytest.mark.slow
def test_own_files_travel_and_the_run_says_where_they_are_here(tmp_path):
    profile = tmp_path / "here" / "mine.yaml"
    profile.parent.mkdir()
    shutil.copy(bundled.folder("devices") / "pixel-6.yaml", profile)
    study = loaded(tmp_path, overrides={"stop.rounds": 2, "fleet.devices": {str(profile): 1.0}})
    store = RunStore(tmp_path / "home")
    alone = run(study.runs[0].scenario, out=tmp_path / "alone", train=False)
    content = profile.read_bytes()

    class Elsewhere(AtOnce):
        """Another machine, where the file does not exist."""

        def submit(self, task, /, *arguments, **named):
            profile.unlink()
            future = super().submit(task, *arguments, **named)
            profile.write_bytes(content)
            return future

    executed(study, store.home, Elsewhere())

    result = store.open(study.runs[0])
    assert result is not None
    assert result.manifest.digest == alone.manifest.digest
    assert result.manifest.scenario_hash == alone.manifest.scenario_hash
    assert list(result.scenario["fleet"]["devices"]) == [str(profile)]
    assert open_run(result.folder).clients["device"].unique().tolist() == ["mine"]
