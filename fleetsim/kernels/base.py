"""Serial reference kernel, the base class of all kernels, and the samples that kernels compute on.

A job's result depends on its arguments, on its stream (seed, "local", client, *job.address) and, by
rounding, on the other jobs of its chunk; never on earlier jobs of the kernel, nor on the process.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import IntArray, Job, JobResult, Parameters, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.host.user_code import user_code
from fleetsim.kernels.batches import Length, StackJob
from fleetsim.kernels.cpu.gemm import onednn
from fleetsim.kernels.device_samples import DeviceSamples, as_tensor
from fleetsim.learning.data.dataset import AccessedInputs, ByteImages
from fleetsim.learning.global_generators import addressed
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.local_sgd import StepStream
from fleetsim.learning.local.step_settings import StepSettings
from fleetsim.learning.models.flat_vector import left_alone
from fleetsim.learning.torch_settings import configure_torch
from fleetsim.quoting import quoted

ServerSet = Literal["test", "validation"]
"""Sample set of the server: the test set, or the samples that it keeps for selectors."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainerData:
    """Samples of all clients and of the server; arrays are never changed in place."""

    train_inputs: NDArray[Any] | ByteImages
    """Training samples of all clients [n, ...], float32, int64 tokens or images' bytes; empty
    [n, 0] where `accessed` is given."""
    train_labels: IntArray
    """Labels of the training samples [n], or [n, t] of sequences."""
    shares: Sequence[IntArray]
    """Rows of the training samples by client; not empty."""
    test_inputs: NDArray[Any]
    """Test samples of the server [m, ...]."""
    test_labels: IntArray
    """Labels of the test samples [m] or [m, t]."""
    evaluated: Sequence[IntArray] | None = None
    """Rows on which each client evaluates models; None: its training samples."""
    validation_rows: IntArray | None = None
    """Rows of the training samples that the server keeps for selectors; of no client."""
    accessed: AccessedInputs | None = None
    """Training samples that are made at each access, for `access_kernel` alone."""


class Kernel:
    """Serial kernel: jobs are computed one at a time in this process, by torch's autograd.

    It is the reference: other kernels must equal it but for rounding. `num_samples` [N] are the
    training samples of every client.
    """

    computes_together: ClassVar[bool] = False
    """True if the bits of a result may depend on the jobs with which it is computed."""
    steps_in_backward: ClassVar[bool] = False
    """True if networks are updated within the backward pass, which saves the memory of gradients,
    unless they hold code of the user's own or the norm of all gradients is limited."""

    def __init__(
        self,
        module: nn.Module,
        data: TrainerData,
        *,
        local_settings: StepSettings,
        seed: int,
        torch_device: str = "cpu",
        seeds_draws: bool = False,
        user_code: str | None = None,
    ) -> None:
        """Build it; the network's weights are overwritten.

        With `seeds_draws`, global random generators are set to the address of every job and
        restored after it, for networks that draw from them. `user_code` is the name in messages of
        the user's code that is called; None: there is none.
        """
        self._device = _device(torch_device)
        self._seeds_draws = seeds_draws
        self._user_code = user_code
        configure_torch()
        self.module = module.to(self._device)
        """Network that the kernel computes on; its weights are those of the last job."""
        self._uses_onednn = False
        self._data = data
        self._local_settings = local_settings
        self._scenario_loss = local_settings.loss.build()
        self._first_rate = local_settings.optimizer.learning_rate
        self._seed = seed
        self._sizes = list(map(len, data.shares))  # Python numbers: read one at a time
        self.num_samples: IntArray = np.array(self._sizes, dtype=np.int64)
        # On the CPU tensors share the arrays' memory, unless it is read-only.
        self._all_samples = DeviceSamples(data.train_inputs, self._device)
        self._labels = as_tensor(data.train_labels).to(self._device)
        self._test = (
            as_tensor(data.test_inputs).to(self._device),
            as_tensor(data.test_labels).to(self._device),
        )

    def chunks(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Return chunks of jobs, by index, that are computed together.

        They follow from the set of jobs alone, not from the order of the list.
        """
        order = sorted(range(len(jobs)), key=lambda i: (jobs[i].client, jobs[i].address))
        # Trainings of one chunk have one learning rate.
        by_rate: dict[float, list[int]] = {}
        others = []
        for i in order:
            if jobs[i].work.kind is WorkKind.TRAIN:
                by_rate.setdefault(self._rate_of(jobs[i]), []).append(i)
            else:
                others.append([i])
        chunks = []
        for _, alike in sorted(by_rate.items()):
            cut = self._stacks([jobs[i] for i in alike])
            chunks += [[alike[i] for i in stack] for stack in cut]
        return chunks + others

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Return the results of the jobs of one chunk, in their order."""
        with self._computing("training"):
            if jobs[0].work.kind is WorkKind.TRAIN:
                return self._train(jobs)
            return [self._run(job) for job in jobs]

    @contextmanager
    def _computing(self, what: str) -> Iterator[None]:
        """Compute with oneDNN if it is allowed, and watch over the user's code, if there is any."""
        with ExitStack() as watches:
            if self._seeds_draws:
                watches.enter_context(left_alone(self.module))
            watches.enter_context(onednn(is_allowed=self._uses_onednn))
            if self._user_code is not None:
                watches.enter_context(user_code(f"{self._user_code}: {what}"))
            yield

    def _draws(self, purpose: str, *indices: int) -> AbstractContextManager[object]:
        """Return a context in which global generators are at an address, if they are to be set."""
        if not self._seeds_draws:
            return nullcontext()
        return addressed(self._seed, purpose, *indices, on_cuda=not self.is_on_cpu)

    def _of_job(self, job: Job) -> AbstractContextManager[object]:
        return self._draws("draws", job.client, *job.address)

    def evaluate(
        self, parameters: Parameters, server_set: ServerSet, first: int, stop: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return losses and hits of a model [P] on some samples of the server, in their order.

        `first` is a multiple of `local_sgd.CHUNK`, so that the ranges do not change the rounding.
        """
        if server_set == "test":
            inputs, labels = (tensor[first:stop] for tensor in self._test)
        else:
            rows = self._data.validation_rows
            if rows is None:
                raise ValueError("no samples are kept for selectors")
            inputs, labels = self._samples(rows[first:stop])
        # What is drawn for a sample does not depend on the range that a process is given.
        size = local_sgd.CHUNK if self._seeds_draws else max(1, stop - first)
        parts = zip(torch.split(inputs, size), torch.split(labels, size), strict=True)
        losses, hits = [], []
        for index, part in enumerate(parts):
            with self._computing("evaluation"), self._draws("server", first + index * size):
                some = local_sgd.losses_and_hits(
                    self.module, parameters, *part, scenario_loss=self._scenario_loss
                )
            losses.append(some[0].cpu().numpy())
            hits.append(some[1].cpu().numpy())
        return np.concatenate(losses), np.concatenate(hits)

    def num_server_samples(self, server_set: ServerSet) -> int:
        """Return the number of samples of a set of the server."""
        if server_set == "test":
            return len(self._data.test_labels)
        rows = self._data.validation_rows
        return 0 if rows is None else len(rows)

    def forms(self) -> dict[str, str]:
        """Return the forms of computing that the kernel chose, by name."""
        return {}

    @property
    def is_on_cpu(self) -> bool:
        """True if the kernel computes on the CPU."""
        return self._device.type == "cpu"

    def num_steps(self, job: Job) -> int:
        """Return the number of SGD steps of a job."""
        if job.work.kind is not WorkKind.TRAIN:
            return 0
        num_samples = self._sizes[job.client]
        batching = self._local_settings.batching
        return local_sgd.num_steps(num_samples, job.work.epochs, batching, job.most_steps)

    def num_samples_of(self, job: Job) -> int:
        """Return the number of samples of one pass of a job."""
        if job.work.kind is WorkKind.NONE:
            return 0
        available = len(self._rows_of(job))
        requested = job.work.num_samples
        return available if requested is None else min(requested, available)

    def _stacks(self, jobs: Sequence[Job]) -> list[list[int]]:
        """Return chunks of trainings, by index, that are computed together; here one per chunk."""
        return [[i] for i in range(len(jobs))]

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        """Compute trainings of one chunk, which have one learning rate."""
        settings = self._settings_of(jobs[0])
        in_backward = (
            self.steps_in_backward
            and self._user_code is None  # which might read a weight that has been updated
            and settings.max_gradient_norm is None
        )
        results = []
        for job in jobs:
            with self._of_job(job):
                result = local_sgd.train(
                    self.module,
                    job.base,
                    *self._samples(self._data.shares[job.client]),
                    settings,
                    local_sgd.Passes(
                        epochs=job.work.epochs,
                        stream=self._stream(job),
                        most_steps=job.most_steps,
                        tells_epoch_losses=job.work.tells_epoch_losses,
                        step_stream=self._step_stream(job),
                        in_backward=in_backward,
                    ),
                    scenario_loss=self._scenario_loss,
                )
            results.append(result)
        return results

    def _rate_of(self, job: Job) -> float:
        return self._first_rate if job.learning_rate is None else job.learning_rate

    def _settings_of(self, job: Job) -> StepSettings:
        """Return the clients' settings at the learning rate of a training."""
        learning_rate = self._rate_of(job)
        if learning_rate == self._first_rate:
            return self._local_settings
        optimizer = self._local_settings.optimizer
        optimizer = optimizer.model_copy(update={"learning_rate": learning_rate})
        return self._local_settings.model_copy(update={"optimizer": optimizer})

    def _run(self, job: Job) -> JobResult:
        """Compute a job that is not a training."""
        if job.work.kind is WorkKind.NONE:
            return JobResult(num_samples=0)
        with self._of_job(job):
            point = self.module, job.base, *self._samples(self._drawn(job))
            if job.work.kind is WorkKind.EVALUATE:
                return local_sgd.evaluate(*point, scenario_loss=self._scenario_loss)
            smoothing = self._local_settings.label_smoothing
            return local_sgd.gradient(
                *point, label_smoothing=smoothing, scenario_loss=self._scenario_loss
            )

    def _stream(self, job: Job) -> np.random.Generator:
        return rng.stream(self._seed, "local", job.client, *job.address)

    def _step_stream(self, job: Job) -> StepStream | None:
        """Return the random streams of a training's augmentation; None without any."""
        if self._local_settings.augmentation.is_none:
            return None
        return lambda step: rng.stream(self._seed, "augment", job.client, *job.address, step)

    def _lengths(self, jobs: Sequence[Job]) -> list[Length]:
        return [Length(self._sizes[job.client], job.work.epochs, job.most_steps) for job in jobs]

    def _stack_jobs(self, jobs: Sequence[Job]) -> list[StackJob]:
        """Return trainings by rows of all samples."""
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
        is_evaluation = job.work.kind is WorkKind.EVALUATE
        evaluated = self._data.evaluated if is_evaluation else None
        return (self._data.shares if evaluated is None else evaluated)[job.client]

    def _drawn(self, job: Job) -> IntArray:
        """Return the rows of a job: all of the client's, or a draw without replacement."""
        share = self._rows_of(job)
        if job.work.num_samples is None:
            return share
        return self._stream(job).choice(share, self.num_samples_of(job), replace=False)

    def _samples(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of some rows on the torch device."""
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
        # Equal jobs give equal bytes: cuDNN selects kernels by a rule, not by timing, in float32.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.allow_tf32 = False
        # The fused kernels of attention add gradients in an order that varies.
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(name)
