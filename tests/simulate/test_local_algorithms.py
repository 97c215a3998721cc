"""Runs whose clients train by an algorithm: arrays kept, bytes on the wire, resume, workers."""

import json
from pathlib import Path

import numpy as np
import pytest

import fleetsim
from fleetsim.contracts import Wire
from fleetsim.errors import PluginError, ScenarioError
from fleetsim.interactive import run as run_parts
from fleetsim.learning.local.algorithms.published import Scaffold
from fleetsim.record import checkpoint
from fleetsim.record.saved_run import Run, open_run
from fleetsim.scenario import load
from fleetsim.simulate import run

TEXT = """\
name: own
task:
  dataset: {kind: digits}
  partition: {kind: shards}
  model: {kind: logistic}
  local:
    epochs: 2
    batch_size: 16
    optimizer: {kind: sgd, learning_rate: 0.1}
    algorithm: {kind: scaffold}
fleet:
  size: 12
  devices: {t2.small: 0.5, pixel-6: 0.5}
server: {cohort: 4, over_commit: 1.5, aggregator: {kind: fedavg, weights: uniform}}
stop: {rounds: 6}
checkpoint: {every_rounds: 2}
"""
NUM_PARAMETERS = 650
"""Logistic regression on 64 pixels and 10 digits."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def kind(name: str) -> list[str]:
    return [f"task.local.algorithm={{kind: {name}}}"]


def last_state(done: Run) -> dict[str, np.ndarray]:
    folder = done.folder / checkpoint.FOLDER
    latest = checkpoint.read_latest(folder, done.manifest.identity)
    assert latest is not None
    return checkpoint.read_state(folder, latest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kept_name", "server"),
    [("scaffold", "control", "control"), ("feddyn", "gradient", "h")],
)
def test_the_servers_arrays_are_the_mean_of_all_clients(path, name, kept_name, server):
    """Late and cancelled tasks change neither, and clients that never delivered have 0."""
    changes = [*kind(name), "server.deadline_s=0.5", "checkpoint.every_rounds=1"]
    done = run(load(path, changes), out=path.parent / "run", workers=1)
    state = last_state(done)
    kept = state[f"own-training/kept/{kept_name}"]

    assert (done.tasks.outcome != "delivered").any()
    delivered = done.tasks[done.tasks.outcome == "delivered"].client
    assert state["own-training/clients"].tolist() == sorted(set(delivered))
    assert np.abs(kept).max() > 0.01
    mean = kept.sum(axis=0) / 12
    np.testing.assert_allclose(state[f"own-training/server/{server}"], mean, atol=1e-6)


@pytest.mark.slow
def test_extra_arrays_take_their_bytes_seconds_and_joules(path):
    """SCAFFOLD sends as much again both ways; FedDyn and Ditto nothing, but Ditto trains twice."""
    phone = []
    for name in ("none", "scaffold", "feddyn", "ditto"):
        tasks = run(load(path, kind(name)), out=path.parent / name, train=False).tasks
        phone.append(tasks[(tasks.outcome == "delivered") & (tasks.device == "pixel-6")].iloc[0])
    plain, scaffold, feddyn, ditto = phone
    bytes_ = [4 * NUM_PARAMETERS * factor for factor in (1, 2, 1, 1)]

    assert [int(task.upload_byte) for task in phone] == bytes_
    assert [int(task.download_byte) for task in phone] == bytes_
    assert scaffold.upload_s > plain.upload_s
    assert scaffold.energy_transmit_j > plain.energy_transmit_j
    assert ditto.train_flop == 2 * plain.train_flop
    assert ditto.compute_s == pytest.approx(2 * plain.compute_s)
    assert ditto.energy_compute_j == pytest.approx(2 * plain.energy_compute_j)
    assert feddyn.compute_s == plain.compute_s


@pytest.mark.slow
def test_personal_models_fit_clients_that_are_not_alike_and_say_so_in_a_column(path: Path) -> None:
    """On samples that clients of two digits each held out, their own models beat the global one."""
    changes = [*kind("ditto"), "stop.rounds=12", "task.holdout_fraction=0.3"]
    done = run(load(path, changes), out=path.parent / "run", workers=1)
    rows = open_run(done.folder).tasks.query("outcome == 'delivered'")
    metrics = [json.loads(text) for text in rows.train_metrics]

    assert {tuple(numbers) for numbers in metrics} == {("personal_loss", "personal_accuracy")}
    assert all(0.0 <= numbers["personal_accuracy"] <= 1.0 for numbers in metrics)
    late = [json.loads(text) for text in rows[rows["round"] > 6].train_metrics]
    personal = np.mean([numbers["personal_accuracy"] for numbers in late])
    assert personal > done.rounds.accuracy.max() + 0.1
    plain = run(load(path, kind("none")), out=path.parent / "plain", workers=1)
    assert "train_metrics" not in plain.tasks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["task.local.optimizer={kind: adam, learning_rate: 0.1}"],
         r"task.local.optimizer.*steps of plain sgd"),
        (["task.local.optimizer.momentum=0.9"], r"task.local.optimizer.*without momentum"),
        (["task.local.max_gradient_norm=1"], r"task.local.max_gradient_norm.*leave it out"),
        (["task.local.proximal_mu=1"], r"task.local.proximal_mu.*leave it out"),
        (["trainer.kind=stacked"], r"trainer.kind.*cannot compute .*scaffold.*use auto or serial"),
        (["server={mode: buffered, concurrency: 2, buffer_size: 1}"],
         r"task.local.algorithm.kind.*use server.mode: synchronous"),
        ([*kind("feddyn"), "server.aggregator={kind: fedavgm}"],
         r"server.aggregator.kind.*'feddyn'; use fedavg"),
        ([*kind("feddyn"), "task.local.proximal_mu=1"], r"task.local.proximal_mu.*of its own"),
    ],
)  # fmt: skip
def test_what_does_not_suit_an_algorithm_is_one_line(path, changes, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        load(path, changes)
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("secure_aggregation", "{kind: secagg}"),
        ("privacy", "{clip_norm: 1, noise_multiplier: 1, delta: 1.0e-5, sampling: none}"),
    ],
)
def test_arrays_beside_the_model_are_not_covered_by_privacy(path, key, value):
    change = f"server.{key}={value}"
    with pytest.raises(ScenarioError, match=rf"{key}.*: covers models alone.*'scaffold'.*ditto"):
        load(path, [change])

    load(path, [change, *kind("ditto")])


def test_arrays_of_a_plug_in_are_not_covered_either(path: Path) -> None:
    """Its part on the server is known once it is made."""
    scenario = load(path, ["server.secure_aggregation={kind: secagg}", *kind("ditto")])

    with pytest.raises(ScenarioError, match=r"server.secure_aggregation: covers models alone"):
        fleetsim.run(scenario, local=Scaffold, out=path.parent / "run", progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        ("wire", lambda *_: 650, "must return a Wire of whole numbers, got 650"),
        ("wire", lambda *_: Wire(download_byte=0.5),  # type: ignore[arg-type]
         "must return a Wire of whole numbers, got Wire(download_byte=0.5"),
        ("server_step", lambda self, server, step: ("model", server),
         "must return a model of floats of shape (650,), got 'model'"),
        ("server_step", lambda self, server, step: (step.after, server["no such array"]),
         "fails: KeyError: 'no such array'"),
    ],
)  # fmt: skip
def test_a_wrong_answer_of_a_training_is_one_line_of_the_user(
    method, answer, text, scenario, tmp_path
):
    training = type("Mine", (Scaffold,), {method: answer})
    with pytest.raises(PluginError) as caught:
        run_parts(scenario, out=tmp_path / "run", local=training, workers=1)

    line = str(caught.value)
    assert line.startswith(f"local {__name__}:Mine: {method} {text}")
    assert __file__ in line
    assert "\n" not in line
