"""Run folders and checkpoints that were swapped, copied, cut or edited: each is found, in one line.

The small study has the runs random, seed 1; cohort of 5, seed 1; and the same with seed 2.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fleetsim.errors import DataError, FaultsError
from fleetsim.record.checkpoint import FOLDER, LATEST
from fleetsim.record.manifest import MANIFEST, PlatformRecord, read_manifest, write_manifest
from fleetsim.scenario import load
from fleetsim.selector_training.record_training import collected
from fleetsim.simulate import run
from fleetsim.studies.result import StudyResult
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.run_tables import tables_of
from tests.studies.small_studies import Silent, executed, loaded

pytestmark = pytest.mark.slow

Change = Callable[[Path, Path, Path], object]
"""Change of a run's folder, beside that of the other arm and that of the other seed."""


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("complete")
    executed(loaded(folder), folder / "home")
    return folder / "home"


@pytest.fixture
def store(complete: Path, tmp_path: Path) -> RunStore:
    return RunStore(shutil.copytree(complete, tmp_path / "home"))


def swap(folder: Path, arm: Path, seed: Path) -> None:
    away = folder.with_name("away")
    folder.rename(away)
    arm.rename(folder)
    away.rename(arm)


def copy_seed(folder: Path, arm: Path, seed: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(seed, folder)


def taken(name: str) -> Change:
    return lambda folder, arm, seed: shutil.copy(seed / name, folder / name)


def cut(name: str) -> Change:
    def change(folder: Path, arm: Path, seed: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])

    return change


def edited(old: str, new: str, name: str = MANIFEST) -> Change:
    def change(folder: Path, arm: Path, seed: Path) -> None:
        text = (folder / name).read_text("utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), "utf-8")

    return change


def sealed_again(**changes: object) -> Change:
    """Change keys of the manifest, as by a program that knows its form."""

    def change(folder: Path, arm: Path, seed: Path) -> None:
        write_manifest(folder, read_manifest(folder).model_copy(update=changes))

    return change


def slower(folder: Path, arm: Path, seed: Path) -> None:
    table = pq.read_table(folder / "rounds.parquet")
    later = [second + 1.0 for second in table["finished_at_s"].to_pylist()]
    place = table.schema.get_field_index("finished_at_s")
    pq.write_table(table.set_column(place, "finished_at_s", [later]), folder / "rounds.parquet")


def never_begun(folder: Path, arm: Path, seed: Path) -> None:
    """Leave the folder of another run, unfinished, in place of the complete one."""
    copy_seed(folder, arm, seed)
    unfinished = {"status": "interrupted", "digest": None, "stop_rule": None}
    write_manifest(folder, read_manifest(folder).model_copy(update=unfinished))


RUNS: dict[str, tuple[Change, str]] = {
    "folders of two arms swapped": (swap, "is that of another run"),
    "folder of another seed": (copy_seed, "with seed 2 and run_key"),
    "unfinished run of another seed": (never_begun, "is that of another run"),
    "manifest of another run": (taken(MANIFEST), "is that of another run"),
    "scenario of another run": (taken("scenario.yaml"), "was changed after the run began"),
    "rounds of another run": (taken("rounds.parquet"), "was changed after the run"),
    "tasks of another run": (taken("tasks.parquet"), "was changed after the run"),
    "clients of another run": (taken("clients.parquet"), "was changed after the run"),
    "tables cut": (cut("clients.parquet"), "is not a whole parquet file"),
    "manifest cut": (cut(MANIFEST), "is not JSON"),
    "rounds edited": (slower, "was changed after the run"),
    "scenario edited": (
        edited("deadline_s: ", "deadline_s: 1", "scenario.yaml"),
        "was changed after the run began",
    ),
    "virtual time edited": (edited('"virtual_s": ', '"virtual_s": 1'), "content_sha256"),
    "digests removed": (edited('"table_digests": {', '"x": {'), "x: unknown key"),
    "status edited": (edited('"status": "done"', '"status": "failed"'), "digest and stop_rule"),
    "seed changed": (sealed_again(seed=2), "with seed 2 and run_key"),
    "scenario hash changed": (sealed_again(scenario_hash="0" * 64), "is that of another run"),
    "another key": (sealed_again(run_key="0" * 64), "is that of another run"),
    "no key": (sealed_again(run_key=None), "does not say which run of a study it is"),
    "no digest": (sealed_again(table_digests=None), "was changed after the run"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text"), RUNS.values(), ids=RUNS)
def test_a_folder_that_is_not_that_of_its_run_is_found(change, text, store, tmp_path):
    study = loaded(tmp_path)
    first, other_arm, other_seed, _ = study.runs
    digest = read_manifest(store.folder(first)).digest
    change(*(store.folder(planned) for planned in (first, other_arm, other_seed)))
    kept = files_of(store.folder(first))

    reason = store.damage(first)
    assert reason is not None
    assert text in reason
    assert str(store.folder(first)) in reason
    assert "\n" not in reason
    assert tables_of(study, store).runs["status"].tolist()[0] == "damaged"
    with pytest.raises(DataError):
        run_of(study, store).require_unchanged()
    with pytest.raises(FaultsError):
        collected(study, store)
    watcher = Silent()
    executed(study, store.home, watcher=watcher)
    assert [event for event in watcher.events if event[0] == "set aside" and text in event[1]]
    assert tables_of(study, store).runs["status"].eq("done").all()
    assert store.damage(first) is None
    assert read_manifest(store.folder(first)).digest == digest
    assert files_of(store.folder(first).with_name(f"{store.folder(first).name}.damaged")) == kept


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def run_of(study, store: RunStore):
    first = study.runs[0]
    return StudyResult(study, store.home).run(arm=first.arm, seed=first.seed)


def test_failures_of_another_study_are_not_taken(tmp_path: Path):
    store = RunStore(tmp_path)
    store.save_failures("one", {"0" * 64: "broken\x1b[2J"})
    assert store.failures("one") == {"0" * 64: r"broken\x1b[2J"}
    (tmp_path / "studies" / "one").rename(tmp_path / "studies" / "two")

    with pytest.raises(DataError, match=r"failures\.json: is that of study 'one'; delete it$"):
        store.failures("two")


SMALL = ["fleet.size=6", "server.cohort=2", "stop.rounds=3", "checkpoint.every_rounds=1"]


def begun(folder: Path, *changes: str, seed: int = 1) -> None:
    """Begin a run without training, and stop it after its second round."""

    def stop(progress) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    scenario = load("quickstart", [*SMALL, *changes], seed=seed)
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=folder, train=False, on_progress=stop)


def resumed(folder: Path):
    return run(load("quickstart", SMALL, seed=1), out=folder, train=False, resume=True)


def of_run(*changes: str, seed: int = 1) -> Callable[[Path], None]:
    """Put the checkpoint of another run into the folder."""

    def change(folder: Path) -> None:
        begun(folder.with_name("other"), *changes, seed=seed)
        shutil.rmtree(folder / FOLDER)
        shutil.copytree(folder.with_name("other") / FOLDER, folder / FOLDER)

    return change


def with_latest(key: str, value: object) -> Callable[[Path], None]:
    """Change what a checkpoint says of its run."""

    def change(folder: Path) -> None:
        latest = folder / FOLDER / LATEST
        data = json.loads(latest.read_text())
        data["run"][key] = value
        latest.write_text(json.dumps(data))

    return change


def with_state(change: Callable[[dict[str, np.ndarray]], object]) -> Callable[[Path], None]:
    """Change arrays of the state, and the digest with them, as a program that knows the form."""

    def put(folder: Path) -> None:
        latest = folder / FOLDER / LATEST
        data = json.loads(latest.read_text())
        path = folder / FOLDER / data["state"]["file"]
        with np.load(path) as archive:
            state = {key: archive[key] for key in archive.files}
        change(state)
        np.savez(path, **state)
        data["state"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        latest.write_text(json.dumps(data))

    return put


def model(state: dict[str, np.ndarray], value: Callable[[np.ndarray], np.ndarray]) -> None:
    state["model/parameters"] = value(state["model/parameters"])


CHECKPOINTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "another learning rate": (
        of_run("task.local.optimizer.learning_rate=0.5"), "its scenario has the hash"
    ),
    "another seed": (of_run(seed=2), "its seed is 2, not 1"),
    "another platform": (
        with_latest("platforms", ["0" * 12]), "on another numerical platform"
    ),
    "another trainer": (with_latest("trainer", "serial"), "trainer is serial"),
    "another plug-in": (with_latest("parts_sha256", "0" * 64), "its plug-ins"),
    "a state without the clock": (
        with_state(lambda state: state.pop("server/now_s")), "lacks 'server/now_s'"
    ),
    "weights of NaN": (
        with_state(lambda state: model(state, lambda w: w * np.float32("nan"))), "is not finite"
    ),
    "weights of another type": (
        with_state(lambda state: model(state, lambda w: w.astype(np.float16))), "float16"
    ),
    "fewer weights": (with_state(lambda state: model(state, lambda w: w[:-1])), "float32 ("),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text"), CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_a_checkpoint_that_is_not_of_the_run_is_not_resumed(change, text, tmp_path):
    folder = tmp_path / "own"
    begun(folder)
    change(folder)

    with pytest.raises(DataError) as caught:
        resumed(folder)

    message = str(caught.value)
    assert message.startswith(str(folder / FOLDER))
    assert text in message
    assert message.endswith(f"delete {folder / FOLDER} and run afresh")
    assert "\n" not in message
    shutil.rmtree(folder / FOLDER)
    alone = run(load("quickstart", SMALL, seed=1), out=tmp_path / "alone", train=False)
    assert resumed(folder).manifest.digest == alone.manifest.digest


def test_a_checkpoint_of_a_platform_of_the_run_is_resumed(tmp_path: Path):
    folder = tmp_path / "own"
    begun(folder)
    manifest = read_manifest(folder)
    other = PlatformRecord.of({"machine": "another"}, {})
    both = {"platforms": (other, *manifest.platforms)}
    write_manifest(folder, manifest.model_copy(update=both))

    assert resumed(folder).manifest.status == "done"
