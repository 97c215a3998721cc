import contextlib
import errno
import fcntl
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydantic import ValidationError

from fleetsim.errors import DataError, ScenarioError
from fleetsim.record.manifest import Manifest, PlatformRecord, read_manifest, write_manifest
from fleetsim.record.resumption import with_platform
from fleetsim.record.run_folder import create_folder, find_run, fresh_folder, is_free, locked
from tests.record.disk import Kill
from tests.record.rows import HASH, STARTED

DONE = STARTED.model_copy(update={"status": "done", "digest": HASH, "stop_rule": "rounds"})


THEN = PlatformRecord.of({"torch": "2.13.0", "processor": "Zen"}, {"products": "MKL"})
NOW = PlatformRecord.of({"torch": "2.13.0", "processor": "Xeon"}, {"products": "MKL"})
BEGUN = STARTED.model_copy(update={"platforms": (THEN,)})
OTHER_FORM = PlatformRecord.of(THEN.features, {"products": "oneDNN"})
"""As when another version of fleetsim has other rules."""


def make(folder: Path, manifest: Manifest = STARTED) -> Path:
    create_folder(folder, scenario="name: quick\n", manifest=manifest)
    return folder


def test_of_two_runs_that_want_the_same_folder_one_gets_it(tmp_path, monkeypatch):
    folder = tmp_path / "quick"
    real, others = os.mkdir, iter([True])

    def mkdir(path: Path, mode: int = 0o777) -> None:
        real(path, mode)
        if Path(path).name == "quick" and next(others, False):
            make(folder)  # the other process was faster

    monkeypatch.setattr(os, "mkdir", mkdir)

    with pytest.raises(DataError, match=f"^{folder}: holds an unfinished run; .*--out$"):
        make(folder)


def test_a_folder_that_another_process_is_making_is_left_to_it(tmp_path):
    folder = tmp_path / "quick"
    folder.mkdir()

    with locked(folder):
        assert fresh_folder(tmp_path, "quick") == tmp_path / "quick-2"
        with pytest.raises(DataError, match=f"^{folder}: another process is writing this run;"):
            make(folder)
    assert fresh_folder(tmp_path, "quick") == folder


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_kill_in_the_making_leaves_a_folder_where_a_run_can_begin(is_before, disk, tmp_path):
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
def test_what_a_kill_cannot_have_left_is_not_taken_for_it(names, tmp_path):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("precious")

    assert not is_free(tmp_path)
    with pytest.raises(DataError, match="is not empty and not a run"):
        make(tmp_path)
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"precious"}


def test_fresh_folders_are_numbered_from_two(tmp_path):
    for name in ("quick-ab12", "quick-ab12-2", "quick-ab12-3"):
        assert fresh_folder(tmp_path, "quick-ab12") == tmp_path / name
        make(tmp_path / name)


def test_newest_run_that_is_not_done_is_found_or_else_the_newest(tmp_path):
    interrupted = STARTED.model_copy(update={"status": "interrupted", "stop_text": "Ctrl-C"})
    for name in ("quick", "quick-2", "quick-10"):
        make(tmp_path / "some" / name, interrupted)
    for name in ("some/quick-11", "all/quick", "all/quick-2"):
        make(tmp_path / name, DONE)
    for name in ("quick-12x", "quick-er"):
        make(tmp_path / "some" / name)
    (tmp_path / "some" / "quick-20").mkdir()

    assert find_run(tmp_path / "some", "quick") == tmp_path / "some" / "quick-10"
    assert find_run(tmp_path / "all", "quick") == tmp_path / "all" / "quick-2"
    assert find_run(tmp_path / "all", "quicker") is None
    assert find_run(tmp_path / "nowhere", "quick") is None


@pytest.mark.parametrize("change", [
    {"status": "done"},
    {"status": "done", "digest": HASH},
    {"status": "interrupted", "stop_rule": "rounds"},
    {"host_s": float("nan")},
])  # fmt: skip
def test_manifest_that_contradicts_itself_is_not_written(change, tmp_path):
    folder = make(tmp_path / "quick")

    with pytest.raises(ValidationError):
        write_manifest(folder, STARTED.model_copy(update=change))
    assert read_manifest(folder) == STARTED


@pytest.mark.parametrize(("text", "message"), [
    ("{", r"manifest\.json: is not JSON"),
    ("[]", r"manifest\.json: must hold an object"),
    (STARTED.model_dump_json().replace('"seed":1', '"seed":"one"'), r"manifest\.json.*seed"),
    (STARTED.model_dump_json()[:-1] + ',"mood":1}', r"manifest\.json.*mood"),
    (BEGUN.model_dump_json().replace("Zen", "Xeon"), "id is not that of the features"),
])  # fmt: skip
def test_damaged_manifest_is_refused_by_name_and_key(text, message, tmp_path):
    folder = make(tmp_path / "quick")
    (folder / "manifest.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(DataError, match=message):
        read_manifest(folder)


def test_a_file_system_without_locks_is_refused_in_plain_words(tmp_path, monkeypatch):
    """Some network file systems answer flock with ENOSYS."""
    refused = OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=refused))
    message = r"cannot lock files \(flock\); choose another place with --out on another one"

    with pytest.raises(DataError, match=message), locked(make(tmp_path / "quick")):
        pass


@pytest.mark.parametrize(("begun", "now", "message"), [
    (BEGUN, NOW, r"ran on another numerical platform; .* differ in processor \(Zen, Xeon\);"),
    (BEGUN, OTHER_FORM, r"differ in products \(MKL, oneDNN\)"),
    (STARTED, NOW, "does not say on which numerical platform it ran"),
])  # fmt: skip
def test_a_run_is_not_resumed_on_another_platform_unless_that_is_allowed(begun, now, message):
    with pytest.raises(ScenarioError, match=rf"^quick: .*{message}.* give --allow-other-platform"):
        with_platform(Path("quick"), begun, now, allow_other=False)
    mixed = with_platform(Path("quick"), begun, now, allow_other=True)

    assert mixed.platforms == (*begun.platforms, now)
    assert with_platform(Path("quick"), mixed, now, allow_other=False) == mixed
