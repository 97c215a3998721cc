import contextlib
import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

import fleetsim
from fleetsim.errors import DataError, ScenarioError
from fleetsim.record.manifest import (
    Manifest,
    PlatformRecord,
    read_manifest,
    versions,
    write_manifest,
)
from fleetsim.record.resumption import require_same_run, with_platform
from fleetsim.record.run_folder import (
    create_folder,
    find_run,
    fresh_folder,
    is_free,
    locked,
    read_scenario,
)
from tests.record.disk import Disk, Kill
from tests.record.rows import HASH, STARTED

DONE = STARTED.model_copy(update={"status": "done", "digest": HASH, "stop_rule": "rounds"})


def make(folder: Path, manifest: Manifest = STARTED) -> Path:
    create_folder(folder, scenario="name: quick\nflag: no\n", manifest=manifest)
    return folder


@pytest.mark.parametrize("is_there", [True, False])
def test_what_was_written_at_the_start_is_read_back(is_there: bool, tmp_path: Path):
    if is_there:
        (tmp_path / "runs" / "quick").mkdir(parents=True)
    folder = make(tmp_path / "runs" / "quick")

    assert read_manifest(folder) == STARTED
    assert read_scenario(folder).data == {"name": "quick", "flag": "no"}
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "checkpoint",
        "manifest.json",
        "scenario.yaml",
    ]


def test_versions_name_fleetsim_python_and_what_results_depend_on():
    found = versions()

    assert found["fleetsim"] == fleetsim.__version__
    assert {"python", "platform", "numpy", "torch", "simpy", "pyarrow"} <= set(found)


@pytest.mark.parametrize(
    ("manifest", "says"),
    [(DONE, "holds a complete run; delete it"), (STARTED, "unfinished run; go on with --resume")],
)
def test_run_that_is_there_is_never_written_over(manifest: Manifest, says: str, tmp_path: Path):
    folder = make(tmp_path / "quick", manifest)

    with pytest.raises(DataError, match=f"^{folder}: .*{says}.*--out$"):
        make(folder)


def test_folder_with_something_else_in_it_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("precious")

    with pytest.raises(DataError, match=f"^{tmp_path}: is not empty and not a run.*--out$"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("folder", ["taken", "taken/quick"])
def test_file_in_the_way_is_named(folder: str, tmp_path: Path):
    (tmp_path / "taken").write_text("a file")

    with pytest.raises(DataError, match=r"taken.*: cannot .*\[Errno (17|20)\].*--out$"):
        make(tmp_path / folder)
    message = rf"^{tmp_path}/taken/\.lock: cannot be locked: .*--out$"
    with pytest.raises(DataError, match=message), locked(tmp_path / "taken"):
        pass


def test_place_that_may_not_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def mkdir(path: Path, mode: int = 0o777) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", mkdir)

    with pytest.raises(
        DataError, match=r"quick: cannot make this folder: \[Errno 13\] Perm.*--out$"
    ):
        make(tmp_path / "quick")


def test_of_two_runs_that_want_the_same_folder_one_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "quick"
    real, others = os.mkdir, iter([True])

    def mkdir(path: Path, mode: int = 0o777) -> None:
        real(path, mode)
        if Path(path).name == "quick" and next(others, False):
            make(folder)  # the other process was faster

    monkeypatch.setattr(os, "mkdir", mkdir)

    with pytest.raises(DataError, match=f"^{folder}: holds an unfinished run; .*--out$"):
        make(folder)


def test_a_folder_that_another_process_is_making_is_left_to_it(tmp_path: Path):
    folder = tmp_path / "quick"
    folder.mkdir()

    with locked(folder):
        assert fresh_folder(tmp_path, "quick") == tmp_path / "quick-2"
        with pytest.raises(DataError, match=f"^{folder}: another process is writing this run;"):
            make(folder)
    assert fresh_folder(tmp_path, "quick") == folder


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_kill_at_any_moment_of_the_making_leaves_a_folder_where_a_run_can_begin(
    is_before: bool, disk: Disk, tmp_path: Path
):
    disk.arm(None)
    make(tmp_path / "whole")
    num_operations, num_half_made = disk.num_done, 0
    assert num_operations >= 9

    for number in range(num_operations):
        folder = tmp_path / str(number)
        disk.arm(number, is_before=is_before)
        # The lock makes its folder, too, which fails as it is there: nobody is killed after that.
        with contextlib.suppress(Kill):
            make(folder)
        disk.arm(None)
        if (folder / "manifest.json").exists():
            assert read_manifest(folder) == STARTED
            continue
        num_half_made += folder.exists() and any(folder.iterdir())
        assert is_free(folder)
        assert read_manifest(make(folder)) == STARTED
        assert not list(folder.glob(".*.tmp"))
    assert num_half_made >= 5


@pytest.mark.parametrize(
    "names",
    [["scenario.yaml"], [".lock", "thesis.tex"], [".lock", "checkpoint/latest.json"]],
    ids=["a scenario", "something else", "a checkpoint"],
)
def test_what_a_kill_cannot_have_left_is_not_taken_for_it(names: list[str], tmp_path: Path):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("precious")

    assert not is_free(tmp_path)
    with pytest.raises(DataError, match="is not empty and not a run"):
        make(tmp_path)
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"precious"}


def test_fresh_folders_are_numbered_from_two(tmp_path: Path):
    names = []
    for _ in range(3):
        names.append(fresh_folder(tmp_path, "quick-ab12").name)
        make(tmp_path / names[-1])

    assert names == ["quick-ab12", "quick-ab12-2", "quick-ab12-3"]


def test_newest_run_that_is_not_done_is_found(tmp_path: Path):
    interrupted = STARTED.model_copy(update={"status": "interrupted", "stop_text": "Ctrl-C"})
    make(tmp_path / "quick", interrupted)
    make(tmp_path / "quick-2", interrupted)
    make(tmp_path / "quick-10", interrupted)
    make(tmp_path / "quick-11", DONE)
    make(tmp_path / "quick-12x")
    make(tmp_path / "quick-er")
    (tmp_path / "quick-20").mkdir()

    assert find_run(tmp_path, "quick") == tmp_path / "quick-10"


def test_the_newest_run_is_found_where_all_are_done(tmp_path: Path):
    make(tmp_path / "quick", DONE)
    make(tmp_path / "quick-2", DONE)

    assert find_run(tmp_path, "quick") == tmp_path / "quick-2"
    assert find_run(tmp_path, "quicker") is None
    assert find_run(tmp_path / "runs", "quick") is None


@pytest.mark.parametrize(
    "change",
    [
        {"status": "done"},
        {"status": "done", "digest": HASH},
        {"status": "failed", "digest": HASH},
        {"status": "interrupted", "stop_rule": "rounds"},
        {"digest": "short", "status": "done", "stop_rule": "rounds"},
        {"host_s": float("nan")},
    ],
)
def test_manifest_that_contradicts_itself_is_not_written(change: dict[str, object], tmp_path: Path):
    folder = make(tmp_path / "quick")

    with pytest.raises(ValidationError):
        write_manifest(folder, STARTED.model_copy(update=change))
    assert read_manifest(folder) == STARTED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", r"manifest\.json: is not JSON"),
        ("\xff", r"manifest\.json: is not JSON"),
        ("[]", r"manifest\.json: must hold an object"),
        (json.dumps({"status": "dnoe"}), r"manifest\.json.*status"),
        (STARTED.model_dump_json().replace('"seed":1', '"seed":"one"'), r"manifest\.json.*seed"),
        (STARTED.model_dump_json()[:-1] + ',"mood":1}', r"manifest\.json.*mood"),
    ],
)
def test_damaged_manifest_is_refused_by_name_and_key(text: str, says: str, tmp_path: Path):
    folder = make(tmp_path / "quick")
    (folder / "manifest.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(DataError, match=says):
        read_manifest(folder)


def test_a_file_system_without_locks_is_refused_in_plain_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Some network file systems answer flock with ENOSYS."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    message = r"cannot lock files \(flock\); choose another place with --out on another one"

    with pytest.raises(DataError, match=message), locked(make(tmp_path / "quick")):
        pass


_HOLDER = """
import sys
import time
from pathlib import Path

from fleetsim.record.run_folder import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_run_is_written_by_one_process_alone(tmp_path: Path):
    folder = make(tmp_path / "quick")
    command = [sys.executable, "-c", _HOLDER, str(folder)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        message = "another process is writing this run; wait until it ends, or .*--out$"
        with pytest.raises(DataError, match=f"^{folder}: {message}"), locked(folder):
            pass
        # A process that dies releases the lock.
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with locked(folder):
        pass


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scenario_hash": HASH}, "quick: was run with another scenario or seed; .*--set"),
        ({"trainer": "none"}, "quick: was run with serial, not with none; .*--no-train"),
    ],
)
def test_a_run_is_not_resumed_as_another(change: dict[str, str], says: str):
    with pytest.raises(ScenarioError, match=says):
        require_same_run(Path("quick"), STARTED, STARTED.model_copy(update=change))


THEN = PlatformRecord.of({"torch": "2.13.0", "processor": "Zen"}, {"products": "MKL"})
NOW = PlatformRecord.of({"torch": "2.13.0", "processor": "Xeon"}, {"products": "MKL"})
BEGUN = STARTED.model_copy(update={"platforms": (THEN,)})


def test_a_run_is_not_resumed_on_another_platform_unless_that_is_allowed():
    with pytest.raises(ScenarioError) as caught:
        with_platform(Path("quick"), BEGUN, NOW, allow_other=False)

    assert str(caught.value) == (
        "quick: ran on another numerical platform; then and now differ in processor (Zen, Xeon);"
        " resume it there, start anew, or give --allow-other-platform, which puts both on record"
    )
    mixed = with_platform(Path("quick"), BEGUN, NOW, allow_other=True)

    assert mixed.platforms == (THEN, NOW)
    assert with_platform(Path("quick"), mixed, THEN, allow_other=False) == mixed


def test_other_forms_on_a_platform_of_the_same_features_are_told_apart():
    """As when another version of fleetsim has other rules."""
    other = PlatformRecord.of(THEN.features, {"products": "oneDNN"})

    assert other.id == THEN.id
    with pytest.raises(ScenarioError, match=r"differ in products \(MKL, oneDNN\)"):
        with_platform(Path("quick"), BEGUN, other, allow_other=False)


def test_a_run_of_an_unknown_platform_is_not_resumed_unasked():
    with pytest.raises(ScenarioError, match="does not say on which numerical platform it ran"):
        with_platform(Path("quick"), STARTED, NOW, allow_other=False)
    assert with_platform(Path("quick"), STARTED, NOW, allow_other=True).platforms == (NOW,)


def test_a_platform_whose_id_is_not_its_own_is_refused(tmp_path: Path):
    folder = make(tmp_path / "quick", BEGUN)
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    (folder / "manifest.json").write_text(text.replace("Zen", "Xeon"), encoding="utf-8")

    with pytest.raises(DataError, match="id is not that of the features"):
        read_manifest(folder)
