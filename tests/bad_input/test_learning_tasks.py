"""Data, partitions and models that cannot be: exit 2, one line, nothing written."""

import pytest

from tests.bad_input.good import bad, scenario

LEARNING = {
    "split that never comes out": bad(
        "kind: iid", "kind: dirichlet, alpha: 0.001, min_samples: 150",
        "task.partition.min_samples", "lower it", "task.partition.alpha above 0.001"),
    "images too small for the model": bad(
        "kind: logistic", "kind: lenet5", "task.model.kind", "12x12", "(1, 8, 8)", "2nn"),
    "model too large for any memory": bad(
        "kind: logistic", "kind: 2nn, hidden: [1000000, 1000000]", "task.model.kind",
        "at most 1e+09"),
    "fleet too large for any memory": bad(
        "kind: digits", "kind: blank", "fleet.size", "not enough memory", words=("--no-train",)),
    "choice by losses that nobody has": bad(
        "kind: random", "kind: oort", "server.selector.kind", "another selector",
        words=("--no-train",)),
    "training on nothing": bad("kind: digits", "kind: blank", "task.dataset.kind", "--no-train"),
    "graphics card that is not there": bad(
        "seed: 1", "seed: 2", "--torch-device", "cuda", "use --torch-device cpu",
        words=("--torch-device", "cuda")),
    "data that is not there": bad(
        "kind: digits", "kind: mnist", "mnist", "cache", "fleetsim data fetch mnist",
        "FLEETSIM_DATA"),
}  # fmt: skip


@pytest.mark.parametrize("fault", LEARNING.values(), ids=LEARNING)
def test_a_learning_task_that_cannot_be_is_refused_before_anything_is_written(
    fault, refused, monkeypatch, tmp_path_factory
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    if "not enough memory" in fault.says:
        monkeypatch.setattr("fleetsim.training.task_samples.blank_sizes", no_memory)

    line = refused("run", scenario(fault), "--out", "run", *fault.words)

    for part in fault.says:
        assert part in line


def no_memory(*_: object, **__: object) -> None:
    raise MemoryError("Unable to allocate 7.28 TiB for an array")
