"""Trackers of a run: what they are told, when, and that they change nothing."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import fleetsim
from fleetsim.contracts import EndedRun, RoundRow, TrackedRun
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.record.run_folder import RunExistsError
from fleetsim.trackers.named import NAMED, metrics_of
from tests.interrupts import interrupted

SMALL = ("fleet.size=6", "server.cohort=2", "stop.rounds=4", "checkpoint.every_rounds=2")


class Notes:
    """Tracker that writes down what it is told."""

    def __init__(self, fails_at: int | str | None = None) -> None:
        self.begun: list[TrackedRun] = []
        self.rows: list[RoundRow] = []
        self.ended: list[EndedRun] = []
        self._fails_at = fails_at

    def begin(self, run: TrackedRun) -> None:
        self._fail("begin")
        self.begun.append(run)

    def round(self, row: RoundRow) -> None:
        self._fail(row.round)
        self.rows.append(row)

    def end(self, run: EndedRun) -> None:
        self._fail("end")
        self.ended.append(run)

    def _fail(self, at: int | str) -> None:
        if self._fails_at == at:
            raise ConnectionError("nobody\nlistens")


def made(folder: Path, *trackers: Any, **options: Any) -> fleetsim.Run:
    return fleetsim.run(
        "quickstart", SMALL, out=folder, train=False, progress=False, trackers=trackers, **options
    )


def test_a_tracker_hears_of_begin_rounds_and_end_and_numbers_are_finite_by_column(tmp_path):
    notes = Notes()
    done = made(tmp_path / "run", notes)
    (begun,), (ended,) = notes.begun, notes.ended

    assert (begun.name, begun.folder, begun.seed) == ("quickstart", tmp_path / "run", 1)
    assert (begun.num_rounds, begun.scenario["server"]["cohort"]) == (0, 2)
    assert begun.scenario_hash == done.manifest.scenario_hash
    assert begun.versions == done.manifest.versions
    assert [row.round for row in notes.rows] == [1, 2, 3, 4]
    assert [row.energy_j for row in notes.rows] == done.rounds["energy_j"].tolist()
    assert ended == EndedRun(tmp_path / "run", "done", "4 rounds done", done.manifest.digest)
    row = notes.rows[0]._replace(waiting_s=float("inf"), loss=None, selector_diagnostics="{}")
    metrics = metrics_of(row)
    assert (metrics["num_delivered"], metrics["aggregated"]) == (row.num_delivered, 1.0)
    assert not {"round", "waiting_s", "loss", "selector_diagnostics"} & metrics.keys()


@pytest.mark.slow
def test_a_run_that_continues_is_told_as_the_same_run(tmp_path):
    """Interrupted after round 3, with all three saved: the next that is told is the fourth."""
    first, second = Notes(), Notes()
    interrupted(made, tmp_path / "run", first, after=3)
    made(tmp_path / "run", second, exist_ok=True)

    assert [row.round for row in first.rows] == [1, 2, 3]
    assert (first.ended[0].status, first.ended[0].digest) == ("interrupted", None)
    assert second.begun[0].num_rounds == 3
    assert second.begun[0].identity == first.begun[0].identity
    assert [row.round for row in second.rows] == [4]
    assert second.ended[0].status == "done"
    other = Notes()
    made(tmp_path / "other", other)
    assert other.begun[0].identity != first.begun[0].identity


@pytest.mark.slow
@pytest.mark.parametrize("at", ["begin", 1, 3])
def test_a_tracker_that_fails_stops_the_run_which_can_continue_without_it(tmp_path, at):
    other = Notes()
    message = rf"tracker Notes\.{at if at == 'begin' else 'round'} fails: ConnectionError: nobody"
    with pytest.raises(PluginError, match=message) as caught:
        made(tmp_path / "run", Notes(at), other)
    finished = made(tmp_path / "run", exist_ok=True)

    assert "\n" not in str(caught.value)
    assert "continue it, without this tracker" in str(caught.value)
    assert finished.manifest.digest == made(tmp_path / "plain").manifest.digest
    assert [ended.status for ended in other.ended] == ([] if at == "begin" else ["failed"])


def test_a_tracker_that_fails_when_a_run_is_interrupted_leaves_a_note(tmp_path):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        made(tmp_path / "run", Notes("end"), on_progress=stop)

    assert any("Notes.end fails" in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_tracker_that_fails_at_the_end_leaves_a_complete_run_which_tells_nobody(tmp_path):
    other, notes = Notes(), Notes()
    with pytest.raises(PluginError, match=r"Notes\.end fails: .*the run is complete in"):
        made(tmp_path / "run", Notes("end"), other)
    assert other.ended[0].status == "done"
    assert fleetsim.open_run(tmp_path / "run").manifest.status == "done"
    made(tmp_path / "run", notes, exist_ok=True)

    assert notes.begun == []
    with pytest.raises(RunExistsError):
        made(tmp_path / "run", notes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["tensorbord"], r"is none of tensorboard, mlflow, wandb.*'tensorboard'"),
        (["wandb="], "names no place; write wandb or wandb=DIR"),
        ([object()], "tracker .*object.* is no tracker, it lacks begin, round, end"),
        ("mlflow", "a list of trackers is wanted"),
    ],
)
def test_what_is_no_tracker_is_refused_before_the_run(tmp_path, given, message):
    with pytest.raises(ScenarioError, match=message):
        fleetsim.run("quickstart", SMALL, out=tmp_path / "run", train=False, trackers=given)
    assert not (tmp_path / "run").exists()


def interrupted_and_continued(folder, tracker):
    """A run that is interrupted after round 3 of 4."""
    interrupted(made, folder, tracker, after=3)
    return made(folder, tracker, exist_ok=True)


def test_tensorboard_has_every_round_once_at_virtual_time(tmp_path):
    pytest.importorskip("tensorboard", reason="pip install 'fleetsim[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    done = interrupted_and_continued(tmp_path / "run", f"tensorboard={tmp_path / 'logs'}")
    read = EventAccumulator(str(tmp_path / "logs" / "run")).Reload()
    events = read.Scalars("energy_j")

    assert [event.step for event in events] == [1, 2, 3, 4]
    assert [event.value for event in events] == pytest.approx(done.rounds["energy_j"].tolist())
    assert [event.wall_time for event in events] == done.rounds["finished_at_s"].tolist()
    assert "accuracy" not in read.Tags()["scalars"]  # of a run without training


@pytest.mark.filterwarnings("ignore")  # of libraries that MLflow brings
def test_mlflow_has_one_run_with_keys_and_rounds(tmp_path):
    for name in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(name, reason="pip install 'fleetsim[mlflow]'")
    from mlflow.tracking import MlflowClient  # noqa: PLC0415

    done = interrupted_and_continued(tmp_path / "run", f"mlflow={tmp_path / 'ml'}")
    uri = f"sqlite:///{tmp_path / 'ml' / 'mlflow.db'}"
    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name("quickstart")
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "energy_j")

    assert {m.step: m.value for m in history} == dict(
        zip(done.rounds["round"], done.rounds["energy_j"], strict=True)
    )
    assert (run.info.status, run.data.params["server.cohort"]) == ("FINISHED", "2")
    assert run.data.tags["fleetsim.digest"] == done.manifest.digest


@pytest.mark.filterwarnings("ignore")  # of libraries that W&B brings
def test_wandb_keeps_a_run_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="pip install 'fleetsim[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))

    done = made(tmp_path / "run", f"wandb={tmp_path / 'wb'}")
    (file,) = (tmp_path / "wb").glob("wandb/offline-run-*/run-*.wandb")
    records = list(wandb_records(file))
    history = [
        {
            item.nested_key[0] if item.nested_key else item.key: json.loads(item.value_json)
            for item in record.history.item
        }
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]

    assert [row["round"] for row in history] == [1, 2, 3, 4]
    assert [row["energy_j"] for row in history] == done.rounds["energy_j"].tolist()


def wandb_records(file):
    """Yield the records of an offline run: a log of LevelDB's format after a header of 7 byte.

    A block has 32 KiB. A piece has a checksum (4 byte), its length (2) and its place in a record:
    all of it (1), its first (2), a middle (3) or its last piece (4).
    """
    from wandb.proto import wandb_internal_pb2  # noqa: PLC0415

    data, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32_768 - at % 32_768
        if left < 7:
            at += left
            continue
        length, place = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if place in (1, 4):
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


@pytest.mark.parametrize("name", NAMED)
def test_without_the_library_the_error_says_how_to_install_it(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    for loaded in [each for each in sys.modules if each.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, loaded)

    with pytest.raises(ScenarioError, match=rf"tracker '{name}': needs {name}.*fleetsim\[{name}\]"):
        fleetsim.run("quickstart", SMALL, out=tmp_path / "run", train=False, trackers=[name])


def test_the_command_takes_trackers(tmp_path, command):
    pytest.importorskip("tensorboard", reason="pip install 'fleetsim[tensorboard]'")
    words = ["run", "quickstart", "--no-train", "--no-report", "--out", tmp_path / "run"]
    sets = [word for change in SMALL for word in ("--set", change)]
    wrong = command(*words, *sets, "--tracker", "wand")
    right = command(*words, *sets, "--tracker", f"tensorboard={tmp_path / 'logs'}")

    assert wrong.code == 2
    assert "is none of tensorboard, mlflow, wandb" in wrong.err
    assert right.code == 0
    assert list((tmp_path / "logs" / "run").iterdir())
