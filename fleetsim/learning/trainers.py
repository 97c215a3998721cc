"""Who computes the clients' jobs on the host, and when.

A job is a pure function of its arguments, so a trainer may compute it at any moment between
`submit` and `result`, and never if it is cancelled. The random stream of a job has the address
(seed, "local", client, *job.address); nothing else enters its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import (
    Evaluation,
    IntArray,
    Job,
    JobResult,
    Parameters,
    WorkKind,
)
from fleetsim.errors import ScenarioError
from fleetsim.learning import local
from fleetsim.learning.settings import LocalSettings


class _OneByOne(ABC):
    """Keeps jobs by ticket and computes each of them when, and only if, its result is asked for."""

    def __init__(self, num_samples: IntArray) -> None:
        self._num_samples = num_samples
        self._jobs: dict[int, Job] = {}
        self._next_ticket = 0
        self.num_computed = 0
        self.num_cancelled = 0

    def submit(self, job: Job) -> int:
        """Keep a job; returns its ticket.

        Raises:
            ValueError: no such client, or work that makes no sense.
        """
        _check_job(job, len(self._num_samples))
        ticket = self._next_ticket
        self._next_ticket += 1
        self._jobs[ticket] = job
        return ticket

    def result(self, ticket: int) -> JobResult:
        """Compute a job. A result that is not finite is returned as it is.

        Raises:
            ValueError: the ticket is unknown, used or cancelled.
        """
        job = self._take(ticket)
        self.num_computed += 1
        return self._compute(job)

    def cancel(self, ticket: int) -> None:
        """Forget a job.

        Raises:
            ValueError: the ticket is unknown, used or cancelled.
        """
        self._take(ticket)
        self.num_cancelled += 1

    def _take(self, ticket: int) -> Job:
        job = self._jobs.pop(ticket, None)
        if job is None:
            raise ValueError(f"ticket {ticket}: never issued, answered already, or cancelled")
        return job

    @abstractmethod
    def _compute(self, job: Job) -> JobResult:
        """What the job yields."""

    def _num_samples_of(self, job: Job) -> int:
        """How many samples a job runs over."""
        if job.work.kind is WorkKind.NONE:
            return 0
        available = int(self._num_samples[job.client])
        return available if job.work.num_samples is None else min(job.work.num_samples, available)


class SerialTrainer(_OneByOne):
    """The plain reference: one job at a time, when its result is asked for.

    What faster trainers must equal within float tolerance. It holds torch to one thread for the
    whole process: on more threads sums are taken in another order, and the number of cores would
    show in the results.

    Attributes:
        num_computed: jobs whose result was asked for.
        num_cancelled: jobs that were forgotten.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        train_inputs: NDArray[np.float32],
        train_labels: IntArray,
        shares: Sequence[IntArray],
        test_inputs: NDArray[np.float32],
        test_labels: IntArray,
        local_settings: LocalSettings,
        seed: int,
        validation_rows: IntArray | None = None,
        torch_device: str = "cpu",
    ) -> None:
        """Build it.

        Args:
            module: the network; becomes this trainer's workbench, its weights do not matter.
            train_inputs: training samples of all clients [n, ...]; read when needed, not copied.
            train_labels: their classes [n].
            shares: for each client the rows of the training samples that are its own; not empty.
            test_inputs: the server's test set [m, ...].
            test_labels: its classes [m].
            local_settings: batch size, optimizer and proximal term of all clients.
            seed: root seed of the run.
            validation_rows: rows of the training samples that the server keeps for selectors; no
                client's own.
            torch_device: "cpu" or "cuda".

        Raises:
            ScenarioError: the torch device is not there.
            ValueError: samples and labels differ in number, or a client has no samples.
        """
        self._device = _device(torch_device)
        _check_data(train_inputs, train_labels, shares, test_inputs, test_labels)
        super().__init__(np.array([len(share) for share in shares], dtype=np.int64))
        torch.set_num_threads(1)
        self._module = module.to(self._device)
        self._train_inputs = train_inputs
        self._train_labels = train_labels
        self._shares = shares
        self._test_inputs = torch.tensor(test_inputs, device=self._device)
        self._test_labels = torch.tensor(test_labels, device=self._device)
        self._validation_rows = validation_rows
        self._local_settings = local_settings
        self._seed = seed

    def _compute(self, job: Job) -> JobResult:
        stream = rng.stream(self._seed, "local", job.client, *job.address)
        match job.work.kind:
            case WorkKind.NONE:
                return JobResult(num_samples=0)
            case WorkKind.TRAIN:
                inputs, labels = self._samples(self._shares[job.client])
                return local.train(
                    self._module,
                    job.base,
                    inputs,
                    labels,
                    self._local_settings,
                    epochs=job.work.epochs,
                    stream=stream,
                )
            case WorkKind.EVALUATE:
                inputs, labels = self._samples(self._drawn(job, stream))
                return local.evaluate(self._module, job.base, inputs, labels)
            case WorkKind.GRADIENT:
                inputs, labels = self._samples(self._drawn(job, stream))
                return local.gradient(self._module, job.base, inputs, labels)

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy (fraction) and mean cross-entropy of a model [P] on the server's test set."""
        return local.assess(self._module, parameters, self._test_inputs, self._test_labels)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """The same on the samples kept for selectors; None if none are kept."""
        if self._validation_rows is None:
            return None
        return local.assess(self._module, parameters, *self._samples(self._validation_rows))

    def _drawn(self, job: Job, stream: np.random.Generator) -> IntArray:
        """Rows that the job runs over: all of the client's, or a draw without replacement."""
        share = self._shares[job.client]
        if job.work.num_samples is None:
            return share
        return stream.choice(share, self._num_samples_of(job), replace=False)

    def _samples(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some rows on the torch device."""
        return (
            torch.from_numpy(self._train_inputs[rows]).to(self._device),
            torch.from_numpy(self._train_labels[rows]).to(self._device),
        )


class NullTrainer(_OneByOne):
    """Trains nothing: for runs that ask for time and energy only.

    Losses, vectors, accuracy are None; the numbers of samples are those of real training.

    Attributes:
        num_computed: jobs whose result was asked for.
        num_cancelled: jobs that were forgotten.
    """

    def __init__(self, num_samples: IntArray) -> None:
        """Build it from the number of training samples of every client [N]."""
        super().__init__(num_samples)

    def _compute(self, job: Job) -> JobResult:
        return JobResult(num_samples=self._num_samples_of(job))

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Nothing is known of a model that nobody trains."""
        return Evaluation(accuracy=None, loss=None)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Nothing is kept for selectors either."""
        return None


def _device(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise ScenarioError(f"--torch-device: {name!r} is neither cpu nor cuda")
    if name == "cuda":
        if not torch.cuda.is_available():
            raise ScenarioError(
                "--torch-device: torch sees no cuda device on this machine; use --torch-device cpu"
            )
        # Same job, same bytes: cuDNN picks kernels by rule and not by trial, in full float32.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
    return torch.device(name)


def _check_data(
    train_inputs: NDArray[Any],
    train_labels: NDArray[Any],
    shares: Sequence[IntArray],
    test_inputs: NDArray[Any],
    test_labels: NDArray[Any],
) -> None:
    for name, inputs, labels in (
        ("training", train_inputs, train_labels),
        ("test", test_inputs, test_labels),
    ):
        if len(inputs) != len(labels) or len(labels) == 0:
            raise ValueError(f"{len(inputs)} {name} samples with {len(labels)} labels")
    for client, share in enumerate(shares):
        if len(share) == 0:
            raise ValueError(f"client {client} has no training samples")
        if share.min() < 0 or share.max() >= len(train_labels):
            raise ValueError(
                f"client {client} has a row outside of the {len(train_labels)} training samples"
            )


def _check_job(job: Job, num_clients: int) -> None:
    work = job.work
    if not 0 <= job.client < num_clients:
        raise ValueError(f"client {job.client} is not in 0..{num_clients - 1}")
    if work.kind is WorkKind.TRAIN and (work.epochs < 1 or work.num_samples is not None):
        raise ValueError(f"training takes at least one epoch over all samples: {work}")
    if work.num_samples is not None and work.num_samples < 1:
        raise ValueError(f"work on fewer than one sample: {work}")
