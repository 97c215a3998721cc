"""A few clients with drawn samples of a data set's form, on which a user's network is tried.

Everything here is fixed, so that what is found follows from the network and the form alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fleetsim import rng
from fleetsim.contracts import Job, JobResult, Parameters, SampleForm, Work, WorkKind
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import MODEL_LOSS, LossKind
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.model_fault import from_code_of
from fleetsim.learning.models.synthetic_samples import drawn_samples

SIZES = (8, 5, 3)
"""Samples of each client: with batches of three they differ in steps and in the last batch, and no
batch has a single sample, which a BatchNorm may refuse."""
_STEPS = (5, None, None)
"""Number of steps after which each client stops, before the end of an epoch."""
_BASES = (0, 1, 0)
"""Model that each client starts from."""
NUM_TESTED = 4
"""Samples of the server."""
_SPREAD = 0.02
"""Standard deviation of what is added to the initial weights: layers that begin at 0 pass on
gradients, too."""


def trial_settings(learning_rate: float, loss: LossKind = MODEL_LOSS) -> LocalSettings:
    """Return local training with every term: momentum, weight decay and proximal term."""
    sgd = SgdSettings(learning_rate=learning_rate, momentum=0.9, weight_decay=0.01)
    plain = LocalSettings(epochs=2, batch_size=3, optimizer=sgd, proximal_mu=0.1)
    return plain.model_copy(update={"loss": loss})


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Network with clients to train it, in one number type."""

    module: nn.Module
    data: TrainerData
    jobs: tuple[Job, ...]

    @classmethod
    def of(cls, module: nn.Module, samples: SampleForm, dtype: torch.dtype) -> Trial:
        """Return a trial of a copy of a network on the CPU."""
        inputs, labels = drawn_samples(samples, sum(SIZES) + NUM_TESTED)
        if samples.vocabulary_size is None:
            inputs = torch.from_numpy(inputs).to(dtype).numpy()
        num = sum(SIZES)
        ends = np.cumsum(SIZES)
        data = TrainerData(
            train_inputs=inputs[:num],
            train_labels=labels[:num],
            shares=np.split(rng.stream(0, "trial rows").permutation(num), ends[:-1]),
            test_inputs=inputs[num:],
            test_labels=labels[num:],
        )
        network = copied(module).to("cpu", dtype)
        bases = [_drawn_base(network, index) for index in range(max(_BASES) + 1)]
        jobs = tuple(
            Job(client, Work(WorkKind.TRAIN, epochs=2), bases[base], (1,), most_steps=most)
            for client, (base, most) in enumerate(zip(_BASES, _STEPS, strict=True))
        )
        return cls(network, data, jobs)

    def kernel(self, kind: type[Kernel], settings: LocalSettings, **options: Any) -> Kernel:
        """Return a kernel with a copy of the network of its own."""
        return kind(copied(self.module), self.data, local_settings=settings, seed=0, **options)

    def train(self, kernel: Kernel) -> list[JobResult]:
        """Return the results of all jobs."""
        results: dict[int, JobResult] = {}
        for chunk in kernel.chunks(self.jobs):
            computed = kernel.compute([self.jobs[index] for index in chunk])
            results.update(zip(chunk, computed, strict=True))
        return [results[index] for index in range(len(self.jobs))]


def copied(module: nn.Module) -> nn.Module:
    """Return a copy of a network; ModelFaultError: it cannot be copied."""
    with from_code_of("copy.deepcopy of it"):
        return copy.deepcopy(module)


def vector_of(result: JobResult) -> Parameters:
    """Return the weights [P] that a training led to."""
    assert result.vector is not None  # trainings have vectors
    return result.vector


def _drawn_base(module: nn.Module, index: int) -> Parameters:
    """Return the network's flat vector with something added to every weight, not to buffers."""
    changed = copied(module)
    with torch.no_grad():
        for place, parameter in enumerate(changed.parameters()):
            draw = rng.stream(0, "trial base", index, place).normal(size=tuple(parameter.shape))
            # Of the shape (), NumPy draws a number and no array.
            parameter.add_(torch.from_numpy(np.asarray(_SPREAD * draw)).to(parameter.dtype))
    return flatten(changed)
