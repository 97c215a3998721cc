"""Data sets without files: digits of scikit-learn, generated users, and shapes without data.

`synthetic` is Synthetic(alpha, beta): users whose models and inputs differ by a stated amount. The
equations of both processes, their sources and their differences are in docs/data.md:
Synthetic(alpha, beta) of Li et al., MLSys 2020, as in its released code, which passes alpha and
beta as standard deviations, and LEAF's process (`process: leaf`). The covariance of the inputs
holds variances. Of the users of Li et al. the largest of 100,000 has about 280,000 samples.

`blank` has only shapes and sizes, for runs that do not train: fleets of a hundred thousand clients
are simulated for their seconds and joules, and no data set is that large. The clients' sizes have
the heavy tail of federated data sets. They are log-normal,
n_k = max(minimum, floor(median * exp(sigma * z_k))) with z_k standard normal.
"""

import functools
import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.rng import stream
from fleetsim.schema.ranges import Samples
from fleetsim.settings import Settings

_NUM_CLASSES = 10
_PIXEL_MAX = 16.0
_TEST_DIVISOR = 5
_SPLIT_SEED = 0


class DigitsSettings(DatasetKind):
    """1,797 real handwritten digits of 8 x 8 pixels that come with scikit-learn: no download."""

    training_samples: ClassVar[int | None] = 1_438
    natural_clients: ClassVar[int | None] = 0
    labels: ClassVar[int | None] = _NUM_CLASSES

    kind: Literal["digits"] = "digits"

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return four fifths of each class to train on, the others to test: 1,438 + 359 images.

        The split has an address without the scenario's seed, so that all runs on digits test on
        the same images.
        """
        inputs, labels = _digits()
        is_test = np.zeros(len(labels), dtype=np.bool_)
        for label in range(_NUM_CLASSES):
            members = np.flatnonzero(labels == label)
            shuffled = stream(_SPLIT_SEED, "data/digits-split", label).permutation(members)
            is_test[shuffled[: round(len(members) / _TEST_DIVISOR)]] = True
        return Dataset(
            name=self.kind,
            train_inputs=inputs[~is_test],
            train_labels=labels[~is_test],
            test_inputs=inputs[is_test],
            test_labels=labels[is_test],
            num_classes=_NUM_CLASSES,
        )


@functools.cache
def _digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return all images [1797, 1, 8, 8] and their labels, read once for the runs of a process."""
    # Its place alone is asked for: importing scikit-learn takes over a second.
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise DataError("data set digits: it comes with scikit-learn, which is missing; install it")
    path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        rows = np.loadtxt(path, dtype=np.int64, delimiter=",")  # 64 pixels and the label
    except (OSError, ValueError) as fault:
        raise DataError(f"{path}: {fault}; install scikit-learn anew") from fault
    inputs = (rows[:, :-1].reshape(-1, 1, 8, 8) / _PIXEL_MAX).astype(np.float32)
    return inputs, rows[:, -1]


_LOG_MEAN, _LOG_STD = 4.0, 2.0
_LOGITS_AT_ONCE = 1 << 24
"""Size of the largest array of logits; users of default sizes stay far below."""
_MIN_SAMPLES = 50
_DECAY = 1.2

_LEAF_LOG_MEAN = 3.0
_LEAF_MIN_SAMPLES, _LEAF_MAX_SAMPLES = 5, 1000
_LEAF_STD = 0.1
"""Standard deviation of the users' multiples, and of the noise on every logit."""


class SyntheticSettings(DatasetKind):
    """Synthetic(alpha, beta) of Li et al. (MLSys 2020): one user per client, drawn by the seed."""

    kind: Literal["synthetic"] = "synthetic"
    process: Literal["fedprox", "leaf"] = "fedprox"
    """Generating process: that of Li et al., or LEAF's, whose users share one model up to a factor
    and which has no alpha and beta."""
    alpha: Annotated[float, Ge(0), Le(1e6)] = 1.0
    """Standard deviation of the users' mean model weight: difference of their models."""
    beta: Annotated[float, Ge(0), Le(1e6)] = 1.0
    """Standard deviation of the users' mean input: difference of their inputs."""
    iid: bool = False
    """One model and one distribution of inputs for all users; needs alpha and beta 0."""
    num_classes: Annotated[int, Ge(2), Le(10_000)] = 10
    """Number of labels."""
    dimension: Annotated[int, Ge(1), Le(10_000)] = 60
    """Number of features of a sample."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.iid and (self.alpha or self.beta):
            raise ValueError(
                f"iid users do not differ: write alpha: 0 and beta: 0 beside iid: true, "
                f"not alpha: {self.alpha:g} and beta: {self.beta:g}"
            )
        if self.process == "leaf" and (self.iid or (self.alpha, self.beta) != (1.0, 1.0)):
            raise ValueError(
                "process: leaf has no alpha, beta or iid; leave them out, or write process: fedprox"
            )
        return self

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the first nine tenths of every user to train on, the others to test on."""
        # The source shuffles a user's samples first; they are independent, so it changes nothing.
        # Only the samples are kept: a user's model may be far larger.
        users = (generate_user(self, seed=seed, user=user) for user in range(num_clients))
        samples = [(user.inputs, user.labels, 9 * len(user.labels) // 10) for user in users]
        num_train = [cut for _, _, cut in samples]
        return Dataset(
            name=self.kind,
            train_inputs=np.concatenate([inputs[:cut] for inputs, _, cut in samples]),
            train_labels=np.concatenate([labels[:cut] for _, labels, cut in samples]),
            test_inputs=np.concatenate([inputs[cut:] for inputs, _, cut in samples]),
            test_labels=np.concatenate([labels[cut:] for _, labels, cut in samples]),
            num_classes=self.num_classes,
            owner=np.repeat(np.arange(num_clients, dtype=np.int64), num_train),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticUser:
    """Samples of one user, and the model that labelled them."""

    inputs: NDArray[np.float32]
    """Features [n, D]."""
    labels: IntArray
    """Labels [n] in 0..C-1; LEAF's process adds noise to the logits before."""
    weights: FloatArray
    """Weights W of the user's own model [D, C]."""
    bias: FloatArray
    """Bias b of the user's own model [C]."""


def generate_user(settings: SyntheticSettings, *, seed: int, user: int) -> SyntheticUser:
    """Return the samples of one user, which depend on the seed and the user alone."""
    if settings.process == "leaf":
        return _leaf_user(settings, seed=seed, user=user)
    shape = (settings.dimension, settings.num_classes)
    draws = stream(seed, "data/synthetic", user)
    num_samples = int(draws.lognormal(_LOG_MEAN, _LOG_STD)) + _MIN_SAMPLES
    if settings.iid:
        model = stream(seed, "data/synthetic-model")
        weights, bias = model.normal(size=shape), model.normal(size=settings.num_classes)
        mean = np.zeros(settings.dimension)
    else:
        model_mean = draws.normal(0.0, settings.alpha)
        weights = draws.normal(model_mean, 1.0, shape)
        bias = draws.normal(model_mean, 1.0, settings.num_classes)
        mean = draws.normal(draws.normal(0.0, settings.beta), 1.0, settings.dimension)
    inputs = _inputs(draws, mean, num_samples)
    labels = [np.argmax(logits, axis=1) for logits in _logits(inputs, weights, bias)]
    return SyntheticUser(inputs, np.concatenate(labels).astype(np.int64), weights, bias)


def _leaf_user(settings: SyntheticSettings, *, seed: int, user: int) -> SyntheticUser:
    shared = stream(seed, "data/synthetic-leaf-model")
    multiple_mean = shared.normal(shared.normal(), 1.0)
    model = shared.normal(size=(settings.dimension + 1, settings.num_classes))
    draws = stream(seed, "data/synthetic-leaf", user)
    num_samples = min(
        int(draws.lognormal(_LEAF_LOG_MEAN, _LOG_STD)) + _LEAF_MIN_SAMPLES, _LEAF_MAX_SAMPLES
    )
    user_model = draws.normal(multiple_mean, _LEAF_STD) * model
    weights, bias = user_model[1:], user_model[0]
    inputs = _inputs(draws, draws.normal(draws.normal(), 1.0, settings.dimension), num_samples)
    labels = [
        np.argmax(logits + draws.normal(0.0, _LEAF_STD, logits.shape), axis=1)
        for logits in _logits(inputs, weights, bias)
    ]
    return SyntheticUser(inputs, np.concatenate(labels).astype(np.int64), weights, bias)


def _logits(
    inputs: NDArray[np.float32], weights: FloatArray, bias: FloatArray
) -> Iterator[FloatArray]:
    """Yield the logits [some, C] of some samples at a time; the largest gives the label."""
    num_at_once = max(_LOGITS_AT_ONCE // bias.size, 1)
    for first in range(0, len(inputs), num_at_once):
        yield inputs[first : first + num_at_once].astype(np.float64) @ weights + bias


def _inputs(draws: np.random.Generator, mean: FloatArray, num_samples: int) -> NDArray[np.float32]:
    """Return samples N(v, Sigma) [n, D] of one user."""
    std = np.arange(1, mean.size + 1) ** (-_DECAY / 2)
    noise = draws.standard_normal((num_samples, mean.size))
    return (mean + std * noise).astype(np.float32)


_MAX_SAMPLE_VALUES = 100_000_000


def _in_memory(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > _MAX_SAMPLE_VALUES:
        raise ValueError(f"one sample must hold at most {_MAX_SAMPLE_VALUES} numbers")
    return shape


_Shape = Annotated[tuple[Samples, ...], Field(min_length=1), AfterValidator(_in_memory)]


class BlankSettings(Settings):
    """No data, only shapes and sizes; for runs without training."""

    kind: Literal["blank"] = "blank"
    input_shape: _Shape = (1, 28, 28)
    """Shape of one sample, as the model sees it."""
    num_classes: Annotated[int, Field(ge=2, le=1_000_000)] = 10
    """Number of classes, as the network sees it."""
    median_samples: Annotated[int, Field(ge=1, le=1_000_000_000)] = 200
    """Training samples of the median client."""
    # Nine deviations above the largest median still fit into 64 bit.
    sigma: Annotated[float, Field(ge=0.0, le=2.5)] = 0.8
    """Standard deviation of the logarithm of the clients' sizes."""
    min_samples: Annotated[int, Field(ge=1, le=1_000_000_000)] = 10
    """Training samples of the smallest client."""


def blank_sizes(settings: BlankSettings, *, seed: int, num_clients: int) -> IntArray:
    """Return the training samples of every client [N]; that of client k does not depend on N."""
    draw = rng.stream(seed, "blank-sizes").standard_normal(num_clients)
    sizes = np.floor(settings.median_samples * np.exp(settings.sigma * draw))
    at_least: IntArray = np.maximum(sizes, settings.min_samples).astype(np.int64)
    return at_least
