from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import UNTRAINED, PreparedTask, TaskRequest
from fleetsim.training.settings import TaskSettings, TrainerSettings

BLANK = {"kind": "blank", "input_shape": (4,), "num_classes": 3, "median_samples": 10, "sigma": 0.0}
DIGITS = {"kind": "digits"}


def prepared(
    dataset: Mapping[str, object],
    num_clients: int = 4,
    measures_memory: bool = False,
    **task: object,
) -> PreparedTask:
    local = {"epochs": 1, "batch_size": 5, "optimizer": {"kind": "sgd", "learning_rate": 0.1}}
    keys = {"dataset": dataset, "model": {"kind": "logistic"}, "local": local, **task}
    settings, trainer = TaskSettings.model_validate(keys), TrainerSettings()
    request = TaskRequest(settings, trainer, 1, 1, num_clients, measures_memory=measures_memory)
    return prepare_task(request, train=False, torch_device="cpu", workers=1)


def test_a_blank_data_set_gives_sizes_and_a_model_but_no_training() -> None:
    """Of 10 samples a client holds out a fifth. 4 inputs to 3 classes are 12 weights, 3 biases."""
    task = prepared(BLANK, holdout_fraction=0.2)

    assert task.num_samples.tolist() == [8] * 4
    assert task.num_evaluated.tolist() == [2] * 4
    assert task.parameters.size == task.cost.num_parameters == 15
    assert task.trainer_kind == UNTRAINED
    assert task.test_labels is None
    assert task.forms == {}


def test_the_memory_of_a_step_is_measured_on_request_alone() -> None:
    assert prepared(BLANK).cost.memory is None
    assert prepared(BLANK, measures_memory=True).cost.memory is not None


@pytest.mark.parametrize(("partition", "share"), [("iid", 1.0), ("one-class", 0.1)])
def test_label_coverage_is_the_share_of_ten_digits_that_a_client_has(partition, share):
    task = prepared(DIGITS, num_clients=10, partition={"kind": partition})

    assert task.label_coverage is not None
    assert task.label_coverage.tolist() == [share] * 10
    # None are held out.
    assert task.num_evaluated.tolist() == task.num_samples.tolist()


def test_samples_without_a_label_of_their_own_have_no_label_coverage(tmp_path: Path) -> None:
    tokens = np.arange(48).reshape(16, 3) % 5
    np.savez(tmp_path / "train.npz", inputs=tokens, labels=(tokens + 1) % 5)
    texts = {"kind": "folder", "folder": str(tmp_path), "test_fraction": 0.25}
    model = {"kind": "lstm", "embedding": 2, "hidden": 2, "layers": 1}
    task = prepared(texts, model=model, partition={"kind": "iid"})

    assert task.label_coverage is None
    assert prepared(BLANK).label_coverage is None
