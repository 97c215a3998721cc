import hashlib
from pathlib import Path

import numpy as np
import pytest

from fleetsim.contracts import State
from fleetsim.errors import DataError
from fleetsim.record import checkpoint, tables
from fleetsim.record.recorder import RunRecorder
from tests.record.rows import NOBODY, STARTED, client_rows, new_recorder, round_row, simulate


def saved(folder: Path) -> checkpoint.Latest:
    latest = checkpoint.read_latest(folder / "checkpoint", STARTED.identity)
    assert latest is not None
    return latest


def resumed(folder: Path, every_rounds: int = 3) -> State:
    _, state = RunRecorder.resume(folder, run=STARTED.identity, every_rounds=every_rounds)
    assert state is not None
    return state


def test_state_keeps_every_key_shape_and_type_whatever_becomes_of_the_callers_arrays(tmp_path):
    state = {
        "file": np.array(3),
        "part/key": np.array([[1.5], [np.nan]], dtype=np.float32),
        "names": np.array(["wi-fi", "lte"]),
        "none": np.empty((0, 4), dtype=np.int8),
        "flag": np.array(True),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "foreign": np.array([[1, 2]], dtype=">i4"),
    }
    given = {key: array.copy() for key, array in state.items()}
    recorder = new_recorder(tmp_path, every_rounds=10)
    recorder.round(round_row(1))
    recorder.checkpoint(given, NOBODY)
    given["part/key"] += 1.0
    recorder.flush()
    read = resumed(tmp_path)

    assert list(read) == list(state)
    for key, array in state.items():
        assert (read[key].dtype, read[key].shape) == (array.dtype, array.shape)
        assert read[key].flags.writeable
        np.testing.assert_array_equal(read[key], array)


def test_resume_removes_what_a_kill_left_and_nothing_else(tmp_path):
    simulate(new_recorder(tmp_path, every_rounds=2), None, 4)
    home = tmp_path / "checkpoint"
    kept = {path.name for path in home.iterdir()}
    for name in (".latest.json.tmp", "state-9.npz", "tasks-7-8.parquet", "rounds-4-5.arrow"):
        (home / name).write_bytes(b"half")
    (tmp_path / ".rounds.parquet.tmp").write_bytes(b"half")
    (home / "my-notes.txt").write_text("keep me")

    RunRecorder.resume(tmp_path, run=STARTED.identity, every_rounds=2)

    assert {path.name for path in home.iterdir()} == kept | {"my-notes.txt"}
    assert not (tmp_path / ".rounds.parquet.tmp").exists()


@pytest.mark.slow
def test_long_run_has_few_segments_and_rewrites_few_rows(tmp_path, monkeypatch):
    """Of rounds and of clients: the cost of a checkpoint follows from what is new."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    num_rounds, per_round = 128, 5
    recorder = new_recorder(tmp_path, every_rounds=1)
    energy_j = np.zeros(num_rounds * per_round)
    written, most, seen = {"rounds": 0, "clients": 0}, 0, set()
    for round_ in range(num_rounds):
        clients = list(range(round_ * per_round, (round_ + 1) * per_round))
        recorder.round(round_row(round_ + 1))
        recorder.checkpoint({}, client_rows(clients, energy_j))
        latest = saved(tmp_path)
        for name, segments in (("rounds", latest.rounds), ("clients", latest.clients)):
            written[name] += sum(part.num_rows for part in segments if part.file not in seen)
            most = max(most, len(segments))
        seen = {part.file for part in latest.saved_files}

    # Sizes at least double from one segment to the one before it, so n rows lie in at most
    # log2(n) + 1 of them; and a row is rewritten only into one that is 1.5 times as large.
    assert most <= np.log2(num_rounds) + 1
    most_often = 1 + np.log(num_rounds) / np.log(1.5)
    assert written["rounds"] <= num_rounds * most_often
    assert written["clients"] <= per_round * num_rounds * most_often


@pytest.mark.parametrize("kind", ["state", "clients", "tasks", "rounds", "latest"])
def test_damaged_checkpoint_is_refused_with_file_and_way_out(kind, tmp_path):
    simulate(new_recorder(tmp_path, every_rounds=2), None, 4)
    home = tmp_path / "checkpoint"
    path = next(home.glob(f"{kind}*"))
    content = path.read_bytes()
    middle = len(content) // 2
    rest = b"" if kind == "latest" else bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes(content[:middle] + rest)
    if kind == "rounds":
        path.unlink()

    with pytest.raises(DataError, match=rf"^{path}: .*; delete {home} and run afresh$"):
        resumed(tmp_path, every_rounds=2)


def test_a_segment_with_fewer_rows_than_its_name_says_is_refused(tmp_path):
    simulate(new_recorder(tmp_path, every_rounds=2), None, 4)
    home = tmp_path / "checkpoint"
    path = home / "rounds-0-3.parquet"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    tables.write(path, [tables.from_rows("rounds", [round_row(1)])], is_published=False)
    after = hashlib.sha256(path.read_bytes()).hexdigest()
    latest = home / "latest.json"
    latest.write_text(latest.read_text().replace(before, after))
    recorder, _ = RunRecorder.resume(tmp_path, run=STARTED.identity, every_rounds=2)

    with pytest.raises(DataError, match=rf"^{path}: holds 1 rows and not 4; delete {home}"):
        recorder.flush()


@pytest.mark.parametrize(("old", "new", "message"), [
    ("state-6.npz", "../state-6.npz", r"state\.file = '\.\./state-6\.npz': must match"),
    ("state-6.npz", "state-7.npz", r"state-7\.npz is not the state after 6 rounds"),
    ('"first_row": 4', '"first_row": 5', "no segment of rounds begins with row 4"),
    ('"num_rows": 4', '"num_rows": 5', "rounds-0-3.parquet cannot hold 5 row"),
    ('"num_rounds": 4', '"num_rounds": 5', "clients-4.npz is not the state of clients after 5"),
    ('"num_rounds": 4', '"num_rounds": 9', "no segment of clients can hold 9 rounds after 0"),
    ('"format": 6', '"format": 5', "was made by an older fleetsim, in another form"),
    ('"format": 6', '"format": 7', r"format = 7: must be 6"),
    ('"seed": 1', '"seed": 2', "is the checkpoint of another run: its seed is 2, not 1"),
])  # fmt: skip
def test_latest_that_contradicts_itself_is_refused(old, new, message, tmp_path):
    simulate(new_recorder(tmp_path, every_rounds=2), None, 7)
    path = tmp_path / "checkpoint" / "latest.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))

    with pytest.raises(DataError, match=rf"latest\.json(?::1)?: {message}.*and run afresh$"):
        RunRecorder.resume(tmp_path, run=STARTED.identity, every_rounds=2)


def test_resume_gives_back_the_last_row_of_every_client_that_ever_changed(tmp_path):
    recorder = new_recorder(tmp_path, every_rounds=2)
    stream = np.random.Generator(np.random.Philox(key=1))
    energy_j, touched = np.zeros(50), set()
    for round_ in range(1, 24):
        clients = sorted(set(stream.integers(0, 40, 4).tolist()))
        energy_j[clients] += stream.random(len(clients))
        touched |= set(clients)
        recorder.round(round_row(round_))
        recorder.checkpoint({"round": np.array(round_)}, client_rows(clients, energy_j))
    before_j = energy_j.copy()
    energy_j[:] = -1.0  # what the caller does with its own is no business of the recorder's
    recorder.flush()

    state = resumed(tmp_path)

    assert int(state["round"]) == 23
    assert state["clients/client"].tolist() == sorted(touched)
    assert state["clients/energy_j"].tolist() == before_j[sorted(touched)].tolist()
