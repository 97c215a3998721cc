"""How one process computes clients' jobs: the samples, and what every kernel does alike.

A kernel has no memory that shows: a job's result is the same whatever the kernel computed before,
and in whichever process. The random stream of a job has the address (seed, "local", client,
*job.address); nothing else enters its result but who shares its chunk, and chunks follow from the
list of jobs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import IntArray, Job, JobResult, Parameters, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.learning.data.byte_images import ByteImages
from fleetsim.learning.kernels.batches import Length, StackJob
from fleetsim.learning.kernels.cpu.numerical_platform import settle
from fleetsim.learning.kernels.device_samples import Samples, as_tensor
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.quoting import quoted

Part = Literal["test", "validation"]
"""Samples of the server: the test set, or those kept for selectors."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainerData:
    """The samples of all clients and of the server; arrays are never changed in place.

    Raises:
        ValueError: samples and labels differ in number, or a client has no samples.
    """

    train_inputs: NDArray[Any] | ByteImages
    """Training samples of all clients [n, ...], float32, int64 tokens or images' bytes; read when
    needed."""
    train_labels: IntArray
    """Their classes [n], or [n, t] of sequences."""
    shares: Sequence[IntArray]
    """For each client the rows of the training samples that are its own; not empty."""
    test_inputs: NDArray[Any]
    """The server's test set [m, ...]."""
    test_labels: IntArray
    """Its classes [m] or [m, t]."""
    judged: Sequence[IntArray] | None = None
    """For each client the rows that it judges models on; None: those that it trains with."""
    validation_rows: IntArray | None = None
    """Rows of the training samples that the server keeps for selectors; no client's own."""

    def __post_init__(self) -> None:
        for name, inputs, labels in (
            ("training", self.train_inputs, self.train_labels),
            ("test", self.test_inputs, self.test_labels),
        ):
            if len(inputs) != len(labels) or len(labels) == 0:
                raise ValueError(f"{len(inputs)} {name} samples with {len(labels)} labels")
        num_samples = len(self.train_labels)
        for client, share in enumerate(self.shares):
            if len(share) == 0:
                raise ValueError(f"client {client} has no training samples")
            if share.min() < 0 or share.max() >= num_samples:
                raise ValueError(
                    f"client {client} has a row outside of the {num_samples} training samples"
                )


class Kernel:
    """Computes jobs in this process, on one torch thread: one after the other, by torch's autograd.

    This is the plain reference; faster kernels change how, and must equal it but for rounding.

    On more threads sums are taken in another order, and the number of cores would show in the
    results.

    Attributes:
        num_samples: of every client [N].
    """

    def __init__(
        self,
        module: nn.Module,
        data: TrainerData,
        *,
        local_settings: LocalSettings,
        seed: int,
        torch_device: str = "cpu",
    ) -> None:
        """Build it.

        Args:
            module: the network; becomes this kernel's workbench, its weights do not matter.
            data: the samples.
            local_settings: batch size, optimizer and proximal term of all clients.
            seed: root seed of the run.
            torch_device: "cpu" or "cuda".

        Raises:
            ScenarioError: the torch device is not there.
        """
        self._device = _device(torch_device)
        settle()
        self._module = module.to(self._device)
        self._data = data
        self._local_settings = local_settings
        self._first_rate = local_settings.optimizer.learning_rate
        self._seed = seed
        self._sizes = list(map(len, data.shares))  # as Python's numbers: read one by one
        self.num_samples: IntArray = np.array(self._sizes, dtype=np.int64)
        # On the CPU these share the arrays' memory, unless they are read-only.
        self._all_samples = Samples(data.train_inputs, self._device)
        self._labels = as_tensor(data.train_labels).to(self._device)
        self._test = (
            as_tensor(data.test_inputs).to(self._device),
            as_tensor(data.test_labels).to(self._device),
        )

    def chunks(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Jobs by index, cut into what is computed together, by the list of jobs alone.

        The order of the list does not show in who shares a chunk.
        """
        order = sorted(range(len(jobs)), key=lambda i: (jobs[i].client, jobs[i].address))
        # What trains together takes steps of one size.
        by_rate: dict[float, list[int]] = {}
        others = []
        for i in order:
            if jobs[i].work.kind is WorkKind.TRAIN:
                by_rate.setdefault(self._rate_of(jobs[i]), []).append(i)
            else:
                others.append([i])
        found = []
        for _, alike in sorted(by_rate.items()):
            cut = self._stacks([jobs[i] for i in alike])
            found += [[alike[i] for i in stack] for stack in cut]
        return found + others

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """What the jobs of one chunk yield, in their order."""
        if jobs[0].work.kind is WorkKind.TRAIN:
            return self._train(jobs)
        return [self._run(job) for job in jobs]

    def judge(
        self, parameters: Parameters, part: Part, first: int, stop: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Losses and fractions of hits of a model [P] on some of the server's samples, in order.

        Args:
            parameters: the model.
            part: which samples.
            first: the first that is judged; a multiple of `local.CHUNK`, so that the cuts do not
                show in the rounding.
            stop: the first that is not judged any more.
        """
        if part == "test":
            inputs, labels = (tensor[first:stop] for tensor in self._test)
        else:
            rows = self._data.validation_rows
            if rows is None:
                raise ValueError("no samples are kept for selectors")
            inputs, labels = self._samples(rows[first:stop])
        losses, hits = self._judged(parameters, inputs, labels)
        return losses.cpu().numpy(), hits.cpu().numpy()

    def num_judged(self, part: Part) -> int:
        """Samples of a part of the server's."""
        if part == "test":
            return len(self._data.test_labels)
        rows = self._data.validation_rows
        return 0 if rows is None else len(rows)

    def forms(self) -> dict[str, str]:
        """Forms of computing that it chose, by name; the plain kernel has no choice."""
        return {}

    @property
    def is_on_cpu(self) -> bool:
        """Whether it computes on the processor."""
        return self._device.type == "cpu"

    def num_steps(self, job: Job) -> int:
        """Steps of local SGD that a job takes."""
        if job.work.kind is not WorkKind.TRAIN:
            return 0
        num_samples = self._sizes[job.client]
        batch_size = self._local_settings.batch_size
        return local_sgd.num_steps(num_samples, job.work.epochs, batch_size, job.most_steps)

    def num_samples_of(self, job: Job) -> int:
        """How many samples a job runs over in one pass."""
        if job.work.kind is WorkKind.NONE:
            return 0
        available = len(self._rows_of(job))
        wanted = job.work.num_samples
        return available if wanted is None else min(wanted, available)

    def _stacks(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Trainings by index, cut into those that are computed together; here each by itself."""
        return [[i] for i in range(len(jobs))]

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Trainings of one stack, which have one learning rate."""
        settings = self._settings_at(self._rate_of(jobs[0]))
        return [
            local_sgd.train(
                self._module,
                job.base,
                *self._samples(self._data.shares[job.client]),
                settings,
                epochs=job.work.epochs,
                stream=self._stream(job),
                most_steps=job.most_steps,
                tells_epoch_losses=job.work.tells_epoch_losses,
            )
            for job in jobs
        ]

    def _rate_of(self, job: Job) -> float:
        """The learning rate of a training."""
        return self._first_rate if job.learning_rate is None else job.learning_rate

    def _settings_at(self, learning_rate: float) -> LocalSettings:
        """Settings of all clients, with the learning rate of some round."""
        if learning_rate == self._first_rate:
            return self._local_settings
        sgd = self._local_settings.optimizer.model_copy(update={"learning_rate": learning_rate})
        return self._local_settings.model_copy(update={"optimizer": sgd})

    def _run(self, job: Job) -> JobResult:
        """What a job that is no training yields."""
        match job.work.kind:
            case WorkKind.EVALUATE:
                return local_sgd.evaluate(self._module, job.base, *self._samples(self._drawn(job)))
            case WorkKind.GRADIENT:
                return local_sgd.gradient(self._module, job.base, *self._samples(self._drawn(job)))
            case _:
                return JobResult(num_samples=0)

    def _judged(
        self, parameters: Parameters, inputs: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Losses and hits of a model on samples."""
        return local_sgd.judged(self._module, parameters, inputs, labels)

    def _stream(self, job: Job) -> np.random.Generator:
        """The job's own random stream."""
        return rng.stream(self._seed, "local", job.client, *job.address)

    def _lengths(self, jobs: Sequence[Job]) -> list[Length]:
        """How long each of some trainings is."""
        return [Length(self._sizes[job.client], job.work.epochs, job.most_steps) for job in jobs]

    def _stack_jobs(self, jobs: Sequence[Job]) -> list[StackJob]:
        """Trainings by rows of all samples."""
        shares = self._data.shares
        addresses = [(job.client, *job.address) for job in jobs]
        num_words = [job.work.epochs * len(shares[job.client]) for job in jobs]
        words = rng.first_words(self._seed, "local", addresses, num_words)
        epochs = {job.work.epochs for job in jobs}
        orders: Iterable[IntArray]
        if len(epochs) == 1 == len(set(num_words)):
            orders = local_sgd.orders_of(np.stack(words), epochs.pop())
        else:
            orders = map(local_sgd.orders_of, words, [job.work.epochs for job in jobs])
        return [
            StackJob(
                job.base, shares[job.client], order, job.most_steps, job.work.tells_epoch_losses
            )
            for job, order in zip(jobs, orders, strict=True)
        ]

    def _rows_of(self, job: Job) -> IntArray:
        """All rows of the client's that work of this kind may run over."""
        is_judging = job.work.kind is WorkKind.EVALUATE
        judged = self._data.judged if is_judging else None
        return (self._data.shares if judged is None else judged)[job.client]

    def _drawn(self, job: Job) -> IntArray:
        """Rows that the job runs over: all of the client's, or a draw without replacement."""
        share = self._rows_of(job)
        if job.work.num_samples is None:
            return share
        return self._stream(job).choice(share, self.num_samples_of(job), replace=False)

    def _samples(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some rows on the torch device."""
        index = torch.from_numpy(rows).to(self._device)
        return self._all_samples.take(index), self._labels.index_select(0, index)


def _device(name: str) -> torch.device:
    if name not in ("cpu", "cuda"):
        raise ScenarioError(f"--torch-device: {quoted(name)} is neither cpu nor cuda")
    if name == "cuda":
        if not torch.cuda.is_available():
            raise ScenarioError(
                "--torch-device: torch sees no cuda device on this machine; use --torch-device cpu"
            )
        # Same job, same bytes: cuDNN picks kernels by rule and not by trial, in full float32.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
    return torch.device(name)
