"""Folders of strangers: links and bombs that were planted where fleetsim writes and reads."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.fleet.traces.folder import write_files
from fleetsim.flower.call_record import CallRecord
from fleetsim.record import atomic_files
from fleetsim.record.checkpoint import FOLDER, LATEST
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.run_folder import is_busy, locked
from fleetsim.record.saved_run import Run, open_run
from fleetsim.report.pages import comparison, run_page
from fleetsim.report.timeline.writing import write_timeline
from fleetsim.studies.run_store import RunStore
from tests.record.rows import STARTED, new_recorder, simulate
from tests.report.made_runs import MadeUp, make_run

PRECIOUS = "not to be overwritten"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run", MadeUp())


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious.txt"
    path.write_text(PRECIOUS)
    return path


WRITERS: dict[str, Callable[[Run], object]] = {
    "report.html": run_page.write_report,
    "timeline.pftrace": write_timeline,
    "comparison.html": lambda run: comparison.write(comparison.compare([run]), run.folder),
    "comparison.csv": lambda run: comparison.write(comparison.compare([run]), run.folder),
    "users.csv": lambda run: write_files(run.folder, {"users.csv": b"user\n"}),
    "manifest.json": lambda run: atomic_files.write(run.folder / "manifest.json", b"{}"),
}


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize("link", ["{}", ".{}.tmp", ".{}.part"])
@pytest.mark.parametrize("name", WRITERS)
def test_no_file_is_written_through_a_link(name, link, run, precious):
    run.require_unchanged()
    planted = run.folder / link.format(name)
    planted.unlink(missing_ok=True)
    planted.symlink_to(precious)

    WRITERS[name](run)

    assert precious.read_text() == PRECIOUS
    assert (run.folder / name).is_file()
    assert not (run.folder / name).is_symlink()


INNER: dict[str, tuple[str, Callable[[Path], object]]] = {
    "figures": ("figures", lambda run: run_page.write_report(open_run(run), formats=["svg"])),
    "checkpoint": (
        FOLDER,
        lambda run: RunRecorder.resume(run, run=STARTED.identity, every_rounds=1),
    ),
    "replies": ("replies", lambda run: CallRecord(run, is_kept=True).put(b"reply")),
    "study": ("studies/one", lambda run: RunStore(run).save_failures("one", {})),
}


@pytest.mark.parametrize("place", INNER)
def test_no_file_is_written_in_a_folder_behind_a_link(place, run, tmp_path):
    name, write = INNER[place]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    planted = run.folder / name
    if planted.is_dir():
        planted.rmdir()
    planted.parent.mkdir(exist_ok=True)
    planted.symlink_to(elsewhere)

    with pytest.raises(DataError, match=rf"^{planted}: is a link, and nothing is written through"):
        write(run.folder)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("target", ["precious.txt", "missing.txt"])
def test_a_lock_that_is_a_link_is_not_opened(target, run, precious):
    lock = run.folder / ".lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(precious.parent / target)

    with pytest.raises(DataError, match=rf"^{re.escape(str(lock))}: is not the file of a lock"):
        is_busy(run.folder)
    with pytest.raises(DataError, match="is not the file of a lock"), locked(run.folder):
        pass
    assert precious.read_text() == PRECIOUS
    assert not (precious.parent / "missing.txt").exists()


def with_file(folder: Path, kind: str, data: bytes, **keys: object) -> None:
    """Put a file into a checkpoint, named with its digest as by a program that knows the form."""
    path = folder / FOLDER / LATEST
    latest = json.loads(path.read_text())
    entry = latest[kind] if isinstance(latest[kind], dict) else latest[kind][0]
    entry |= {"sha256": hashlib.sha256(data).hexdigest(), **keys}
    (folder / FOLDER / entry["file"]).write_bytes(data)
    path.write_text(json.dumps(latest))


def zipped(method: int, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def stored(model: bytes) -> bytes:
    return zipped(zipfile.ZIP_STORED, model=model)


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


ZEROS = npy(np.zeros(1 << 22))
HUGE = npy(np.zeros(2)).replace(b"(2,), }" + b" " * 11, b"(900000000000,), }")
CUT = npy(np.zeros(2)).replace(b"(2,), }", b"(2,),  ")

ARCHIVES = {
    "compressed": ("state", zipped(zipfile.ZIP_DEFLATED, model=ZEROS), "its arrays are compressed"),
    "a huge shape": ("state", stored(HUGE), "model.npy: float64 (900000000000,)"),
    "a header without end": ("state", stored(CUT), "is not a file of arrays"),
    "objects": ("state", stored(npy(np.array([{}]))), "model.npy: object"),
    "no array": ("state", stored(b"text"), "magic string"),
    "no archive": ("state", b"text", "not a zip file"),
    "no numbers of clients": ("clients", stored(npy(np.zeros(2))), "rows of clients"),
}


@pytest.mark.parametrize(("kind", "data", "reason"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_file_of_arrays_that_fleetsim_did_not_write_is_not_unpacked(kind, data, reason, tmp_path):
    simulate(new_recorder(tmp_path, every_rounds=2), None, 4)
    with_file(tmp_path, kind, data)

    message = rf"^.*{re.escape(reason)}.*delete {tmp_path / FOLDER} and run afresh$"
    with pytest.raises(DataError, match=message):
        RunRecorder.resume(tmp_path, run=STARTED.identity, every_rounds=2)
