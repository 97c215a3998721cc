"""One call prepares what a scenario learns: data, partition, model and trainer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from fleetsim.learning.aggregation.compression import Quantise8BitSettings, UncompressedSettings
from fleetsim.learning.data.digits import DigitsSettings
from fleetsim.learning.data.prefetch import Prefetch
from fleetsim.training import task_samples
from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import UNTRAINED, PreparedTask, TaskRequest
from fleetsim.training.settings import TaskSettings, TrainerKind, TrainerSettings

BLANK = {"kind": "blank", "input_shape": (4,), "num_classes": 3, "median_samples": 10, "sigma": 0.0}
DIGITS = {"kind": "digits"}


def prepared(
    dataset: Mapping[str, object],
    *,
    train: bool,
    kind: TrainerKind | Literal["auto"] = "auto",
    measures_memory: bool = False,
    prefetched: Prefetch | None = None,
    num_clients: int = 4,
    **task: object,
) -> PreparedTask:
    local = {"epochs": 1, "batch_size": 5, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}
    settings = TaskSettings.model_validate(
        {"dataset": dataset, "model": {"kind": "logistic"}, "local": local, **task}
    )
    request = TaskRequest(
        settings, TrainerSettings(kind=kind), 1, 1, num_clients, measures_memory=measures_memory
    )
    return prepare_task(request, train=train, torch_device="cpu", workers=1, prefetched=prefetched)


def test_a_blank_data_set_gives_sizes_and_a_model_but_no_training() -> None:
    """Of 10 samples a client holds out a fifth. 4 inputs to 3 classes are 12 weights, 3 biases."""
    task = prepared(BLANK, train=False, holdout_fraction=0.2)

    assert task.num_samples.tolist() == [8] * 4
    assert task.num_evaluated.tolist() == [2] * 4
    assert task.parameters.size == task.cost.num_parameters == 15
    assert task.trainer_kind == UNTRAINED
    assert task.test_labels is None
    assert task.forms == {}


def test_a_trained_task_has_the_kernel_of_its_kind_and_the_test_labels() -> None:
    task = prepared(DIGITS, train=True, kind="stacked")

    assert task.trainer_kind == "stacked"
    assert task.forms.keys() == {"products"}
    assert task.test_labels is not None
    assert np.unique(task.test_labels).tolist() == list(range(10))
    assert task.trainer.evaluate(task.parameters).accuracy is not None


def test_the_memory_of_a_step_is_measured_on_request_alone() -> None:
    assert prepared(BLANK, train=False).cost.memory is None
    assert prepared(BLANK, train=False, measures_memory=True).cost.memory is not None


def test_an_upload_is_compressed_but_for_what_is_no_float() -> None:
    """15 floats of 4 byte; at 8 bits 15 byte and one bucket of two 4-byte ends."""
    task = prepared(BLANK, train=False)

    assert task.upload_byte(UncompressedSettings()) == task.cost.payload_byte == 60
    assert task.upload_byte(Quantise8BitSettings()) == 15 + 8


@pytest.mark.parametrize(("partition", "share"), [("iid", 1.0), ("one-class", 0.1)])
def test_label_coverage_is_the_share_of_ten_digits_that_a_client_has(partition, share):
    task = prepared(DIGITS, train=False, num_clients=10, partition={"kind": partition})

    assert task.label_coverage is not None
    assert task.label_coverage.tolist() == [share] * 10
    # None are held out.
    assert task.num_evaluated.tolist() == task.num_samples.tolist()


def test_samples_without_a_label_of_their_own_have_no_label_coverage(tmp_path: Path) -> None:
    tokens = np.arange(48).reshape(16, 3) % 5
    np.savez(tmp_path / "train.npz", inputs=tokens, labels=(tokens + 1) % 5)
    texts = {"kind": "folder", "folder": str(tmp_path), "test_fraction": 0.25}
    model = {"kind": "lstm", "embedding": 2, "hidden": 2, "layers": 1}
    task = prepared(texts, train=False, model=model, partition={"kind": "iid"})

    assert task.label_coverage is None
    assert prepared(BLANK, train=False).label_coverage is None


def test_a_prefetched_data_set_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Prefetch(DigitsSettings(), seed=1, num_clients=4)
    monkeypatch.delattr(task_samples, "load_dataset")
    task = prepared(DIGITS, train=False, prefetched=read)

    assert task.num_samples.sum() > 0
