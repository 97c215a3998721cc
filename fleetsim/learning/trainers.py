"""Who computes the clients' jobs on the host, and when.

A job is a pure function of its arguments, so a trainer may compute it at any moment between
`submit` and `results`, and never if it is cancelled. The random stream of a job has the address
(seed, "local", client, *job.address); nothing else enters its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import Evaluation, IntArray, Job, JobResult, Parameters, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.learning import local
from fleetsim.learning.settings import LocalSettings
from fleetsim.learning.tickets import Tickets


@dataclass(frozen=True, slots=True, eq=False)
class TrainerData:
    """The samples of all clients and of the server; arrays are never changed in place.

    Raises:
        ValueError: samples and labels differ in number, or a client has no samples.
    """

    train_inputs: NDArray[np.float32]
    """Training samples of all clients [n, ...]; read when needed, not copied."""
    train_labels: IntArray
    """Their classes [n]."""
    shares: Sequence[IntArray]
    """For each client the rows of the training samples that are its own; not empty."""
    test_inputs: NDArray[np.float32]
    """The server's test set [m, ...]."""
    test_labels: IntArray
    """Its classes [m]."""
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


class DataTrainer(Tickets):
    """What trainers on real data share: the samples, single jobs, and the server's test set.

    It holds torch to one thread for the whole process: on more threads sums are taken in another
    order, and the number of cores would show in the results.

    Attributes:
        num_computed: jobs whose result was asked for.
        num_cancelled: jobs that were forgotten.
        num_steps: steps of local SGD that were computed.
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
            module: the network; becomes this trainer's workbench, its weights do not matter.
            data: the samples.
            local_settings: batch size, optimizer and proximal term of all clients.
            seed: root seed of the run.
            torch_device: "cpu" or "cuda".

        Raises:
            ScenarioError: the torch device is not there.
        """
        super().__init__(np.array([len(share) for share in data.shares], dtype=np.int64))
        self._device = _device(torch_device)
        torch.set_num_threads(1)
        self._module = module.to(self._device)
        self._data = data
        self._test_inputs = torch.tensor(data.test_inputs, device=self._device)
        self._test_labels = torch.tensor(data.test_labels, device=self._device)
        self._local_settings = local_settings
        self._seed = seed
        self.num_steps = 0

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy (fraction) and mean cross-entropy of a model [P] on the server's test set."""
        return local.assess(self._module, parameters, self._test_inputs, self._test_labels)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """The same on the samples kept for selectors; None if none are kept."""
        rows = self._data.validation_rows
        if rows is None:
            return None
        return local.assess(self._module, parameters, *self._samples(rows))

    def _compute_one(self, job: Job) -> JobResult:
        """What one job yields, by the plain functions of `local`."""
        stream = self._stream(job)
        match job.work.kind:
            case WorkKind.NONE:
                return JobResult(num_samples=0)
            case WorkKind.TRAIN:
                inputs, labels = self._samples(self._data.shares[job.client])
                result = local.train(
                    self._module,
                    job.base,
                    inputs,
                    labels,
                    self._local_settings,
                    epochs=job.work.epochs,
                    stream=stream,
                )
                self._count_steps(job)
                return result
            case WorkKind.EVALUATE:
                inputs, labels = self._samples(self._drawn(job, stream))
                return local.evaluate(self._module, job.base, inputs, labels)
            case WorkKind.GRADIENT:
                inputs, labels = self._samples(self._drawn(job, stream))
                return local.gradient(self._module, job.base, inputs, labels)

    def _stream(self, job: Job) -> np.random.Generator:
        """The job's own random stream."""
        return rng.stream(self._seed, "local", job.client, *job.address)

    def _count_steps(self, job: Job) -> None:
        """Add the steps of a training that was computed."""
        num_samples = int(self._num_samples[job.client])
        self.num_steps += local.num_steps(
            num_samples, job.work.epochs, self._local_settings.batch_size
        )

    def _drawn(self, job: Job, stream: np.random.Generator) -> IntArray:
        """Rows that the job runs over: all of the client's, or a draw without replacement."""
        share = self._data.shares[job.client]
        if job.work.num_samples is None:
            return share
        return stream.choice(share, self._num_samples_of(job), replace=False)

    def _samples(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some rows on the torch device."""
        return (
            torch.from_numpy(self._data.train_inputs[rows]).to(self._device),
            torch.from_numpy(self._data.train_labels[rows]).to(self._device),
        )


class SerialTrainer(DataTrainer):
    """The plain reference: one job after the other. What faster trainers must equal."""

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        return [self._compute_one(job) for job in jobs]


class NullTrainer(Tickets):
    """Trains nothing: for runs that ask for time and energy only.

    Losses, vectors, accuracy are None; the numbers of samples are those of real training.
    """

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        return [JobResult(num_samples=self._num_samples_of(job)) for job in jobs]

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
