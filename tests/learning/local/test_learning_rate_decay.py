"""The learning rate of each round, and that tasks are trained with the one they were sent with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError

import fleetsim
from fleetsim import rng
from fleetsim.contracts import Job, Work, WorkKind
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.kernels.conv.kernel import ChannelsLastKernel
from fleetsim.kernels.stacked.kernel import StackedKernel
from fleetsim.kernels.vmap.kernel import VectorisedKernel
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.learning_rate_decay import (
    DecaySettings,
    ExponentialDecaySettings,
    NoDecaySettings,
    StepDecaySettings,
)
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import LeNet5Settings, LogisticSettings, ModelSettings
from fleetsim.training.trainers import DataTrainer

SHAPE = (1, 12, 12)


def rates(decay: DecaySettings, *rounds: int) -> list[float]:
    sgd = SgdSettings(learning_rate=0.8, decay=decay)
    return [sgd.learning_rate_at(round_) for round_ in rounds]


def test_without_decay_every_round_has_the_same_rate() -> None:
    assert rates(NoDecaySettings(), 0, 1, 2, 10**6) == [0.8] * 4


def test_a_step_comes_after_its_round() -> None:
    halved = StepDecaySettings(after_rounds=(2, 5), factor=0.5)

    assert rates(halved, 0, 1, 2, 3, 5, 6, 99) == [0.8, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2]


def test_exponential_decay_is_a_factor_every_so_many_rounds() -> None:
    every = ExponentialDecaySettings(factor=0.5)
    third = ExponentialDecaySettings(factor=0.5, every_rounds=3)

    assert rates(every, 0, 1, 2, 3) == [0.8, 0.8, 0.4, 0.2]
    assert rates(third, 1, 3, 4, 6, 7) == [0.8, 0.8, 0.4, 0.4, 0.2]


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "steps", "after_rounds": [], "factor": 0.5},
        {"kind": "steps", "after_rounds": [5, 2], "factor": 0.5},
        {"kind": "steps", "after_rounds": [5, 5], "factor": 0.5},
        {"kind": "steps", "after_rounds": [0], "factor": 0.5},
        {"kind": "steps", "after_rounds": [5], "factor": 1.5},
        {"kind": "exponential", "factor": 0.0},
        {"kind": "exponential", "factor": 0.9, "every_rounds": 0},
        {"kind": "cosine"},
    ],
)
def test_settings_out_of_range_are_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(DecaySettings).validate_python(raw)


# --- training -----------------------------------------------------------------------------------


def data_of() -> TrainerData:
    draw = rng.stream(1, "test/decay")
    inputs = draw.normal(size=(70, *SHAPE)).astype(np.float32)
    labels = draw.integers(3, size=70)
    return TrainerData(inputs, labels, np.split(np.arange(60), [20, 35, 41]), inputs, labels)


def settings_of(learning_rate: float) -> LocalSettings:
    sgd = SgdSettings(learning_rate=learning_rate, momentum=0.5)
    return LocalSettings(epochs=1, batch_size=8, optimizer=sgd)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        (Kernel, LogisticSettings()),
        (StackedKernel, LogisticSettings()),
        (VectorisedKernel, LogisticSettings()),
        (ChannelsLastKernel, LeNet5Settings()),
    ],
)
def test_jobs_of_one_call_train_each_at_its_own_rate(
    kind: type[Kernel], model: ModelSettings
) -> None:
    """Against `local_sgd.train` with settings that state the rate; another would be off by half."""
    data = data_of()
    module = build_model(model, input_shape=SHAPE, num_classes=3, seed=1)
    base = flatten(module)
    trainer = DataTrainer(kind(module, data, local_settings=settings_of(0.1), seed=1))
    at: list[float | None] = [None, 0.05, 0.1, 0.05]
    work = Work(WorkKind.TRAIN, epochs=2)
    jobs = [Job(c, work, base, (1,), learning_rate=rate) for c, rate in enumerate(at)]

    found = trainer.results([trainer.submit(job) for job in jobs])

    for client, (rate, result) in enumerate(zip(at, found, strict=True)):
        rows = torch.from_numpy(data.shares[client])
        expected = local_sgd.train(
            build_model(model, input_shape=SHAPE, num_classes=3, seed=1),
            base,
            torch.from_numpy(data.train_inputs)[rows],
            torch.from_numpy(data.train_labels)[rows],
            settings_of(0.1 if rate is None else rate),
            local_sgd.Passes(epochs=2, stream=rng.stream(1, "local", client, 1)),
        )
        assert expected.vector is not None
        assert result.vector is not None
        gap = np.linalg.norm(result.vector - expected.vector)
        assert gap < 1e-3 * np.linalg.norm(expected.vector - base)


def test_only_jobs_of_one_rate_share_a_stack() -> None:
    module = build_model(LogisticSettings(), input_shape=SHAPE, num_classes=3, seed=1)
    kernel = StackedKernel(module, data_of(), local_settings=settings_of(0.1), seed=1)
    base = flatten(module)
    work = Work(WorkKind.TRAIN, epochs=1)
    jobs = [Job(c, work, base, (1,), learning_rate=r) for c, r in enumerate([0.1, 0.2, None, 0.2])]

    chunks = kernel.chunks([*jobs, Job(0, Work(WorkKind.EVALUATE), base, (2,))])

    assert sorted(map(sorted, chunks)) == [[0, 2], [1, 3], [4]]


def test_a_run_trains_every_round_at_its_rate(tmp_path: Path) -> None:
    """After two rounds the rate falls to nothing: the model of round 2 stays for ever."""
    text = """
name: decayed
task:
  dataset: {kind: digits}
  model: {kind: logistic}
  local:
    epochs: 1
    batch_size: 20
    optimizer:
      learning_rate: 0.1
      decay: {kind: steps, after_rounds: [2], factor: 1.0e-30}
fleet:
  size: 6
  devices: {t2.small: 1.0}
server: {cohort: 3}
stop: {rounds: 4}
"""
    (tmp_path / "decayed.yaml").write_text(text, encoding="utf-8")
    done = fleetsim.run(fleetsim.load(tmp_path / "decayed.yaml"), out=tmp_path / "run", workers=1)

    loss = done.rounds["loss"].tolist()
    assert loss[0] > loss[1] == loss[2] == loss[3]
