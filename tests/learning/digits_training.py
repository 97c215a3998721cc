"""Clients that own scikit-learn's digits, and trainers of them."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from fleetsim import rng
from fleetsim.contracts import (
    IntArray,
    Job,
    JobResult,
    Parameters,
    SampleForm,
    Trainer,
    Work,
    WorkKind,
)
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import LeNet5Settings, ModelSettings, TwoNNSettings
from fleetsim.training.trainers import DataTrainer

TRAIN = Work(WorkKind.TRAIN, epochs=2)
SIZES = [40, 60, 3, 17, 100, 1, 33, 50, 8, 25]
SMALL = TwoNNSettings(hidden=(32, 16))
CNN = LeNet5Settings()


@cache
def digits() -> tuple[NDArray[np.float32], IntArray]:
    """1,797 real digits of 8 x 8 pixels in [0, 1], in an order of no meaning."""
    images, labels = load_digits(return_X_y=True)
    order = rng.stream(0, "test/digits").permutation(len(labels))
    inputs = (images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return inputs, labels[order].astype(np.int64)


def data_of(shares: Sequence[IntArray] | None = None, *, pixel_side: int = 1) -> TrainerData:
    """1,437 samples to train on and 360 to test on, and 37 of the former kept for selectors.

    A digit's pixels are so many of the image's on either side.
    """
    small, labels = digits()
    inputs = small.repeat(pixel_side, axis=2).repeat(pixel_side, axis=3)
    ends = np.cumsum(SIZES)
    return TrainerData(
        inputs[:1437],
        labels[:1437],
        np.split(np.arange(ends[-1]), ends[:-1]) if shares is None else shares,
        inputs[1437:],
        labels[1437:],
        validation_rows=np.arange(1400, 1437),
    )


def kernel_of(
    kind: type[Kernel] = Kernel,
    model: ModelSettings = SMALL,
    *,
    data: TrainerData | None = None,
    seed: int = 7,
    **options: Any,
) -> tuple[Kernel, Parameters]:
    if data is None:
        data = data_of(pixel_side=2 if model is CNN else 1)
    shape = data.test_inputs.shape[1:]
    module = build_model(model, SampleForm(shape, 10), seed=seed)
    base = flatten(module)
    local = LocalSettings(epochs=2, batch_size=16, optimizer=SgdSettings(learning_rate=0.1))
    return kind(module, data, local_settings=local, seed=seed, **options), base


def trainer_of(
    kind: type[Kernel] = Kernel, model: ModelSettings = SMALL, **options: Any
) -> tuple[DataTrainer, Parameters]:
    kernel, base = kernel_of(kind, model, **options)
    return DataTrainer(kernel), base


def submitted(trainer: Trainer, base: Parameters, work: Work = TRAIN) -> list[int]:
    """Tickets of this work for every client."""
    return [trainer.submit(Job(client, work, base, (1,))) for client in range(len(SIZES))]


def run(
    trainer: Trainer,
    client: int,
    base: Parameters,
    address: Sequence[int] = (1,),
    work: Work = TRAIN,
) -> JobResult:
    return trainer.results([trainer.submit(Job(client, work, base, tuple(address)))])[0]
