"""TensorBoard, MLflow and Weights & Biases: what a run wrote, read back by their libraries."""

import json
import sys

import pytest

import fleetsim
from fleetsim.errors import ScenarioError
from fleetsim.trackers.named import NAMED
from tests.interrupts import interrupted
from tests.trackers.test_following import SMALL, made


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
