"""Who computes the clients' jobs on the host, and when.

A job is a pure function of its arguments, so a trainer may compute it at any moment between
`submit` and `results`, and never if it is cancelled. A `Kernel` says how, a `Pool` in which
processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import Evaluation, IntArray, Job, JobResult, Parameters, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.learning.kernels.base import Kernel, ServerSet
from fleetsim.learning.training.pending_jobs import Tickets
from fleetsim.learning.training.worker_pool import Pool, usable_cores


class DataTrainer(Tickets):
    """Trains on real data; how is its kernel's business.

    Attributes:
        num_computed: jobs whose result was asked for.
        num_cancelled: jobs that were forgotten.
        num_steps: steps of local SGD that were computed.
    """

    def __init__(self, kernel: Kernel, *, workers: int | None = 1) -> None:
        """Build it.

        Args:
            kernel: computes the jobs.
            workers: processes that compute, this one included; shows in the time alone. None: one
                for every core that this process may use, or this one alone beside a cuda device.

        Raises:
            ScenarioError: several processes would share a cuda device.
        """
        super().__init__(kernel.num_samples)
        if not kernel.is_on_cpu:
            if workers not in (None, 1):
                raise ScenarioError(
                    f"--workers: {workers} processes cannot share --torch-device cuda; leave"
                    " --workers out"
                )
            workers = 1
        self._kernel = kernel
        self._pool = Pool(kernel, usable_cores() if workers is None else workers)
        self.num_steps = 0

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Accuracy (fraction) and mean cross-entropy of a model [P] on the server's test set."""
        return self._evaluate(parameters, "test")

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """The same on the samples kept for selectors; None if none are kept."""
        if not self._kernel.num_server_samples("validation"):
            return None
        return self._evaluate(parameters, "validation")

    def _evaluate(self, parameters: Parameters, server_set: ServerSet) -> Evaluation:
        losses, hits = self._pool.evaluate(parameters, server_set)
        return Evaluation(accuracy=float(hits.mean()), loss=float(losses.mean(dtype=np.float64)))

    def _begin(self, jobs: Sequence[Job]) -> None:
        self._pool.begin(jobs)

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        results = self._pool.compute(jobs)
        self.num_steps += sum(map(self._kernel.num_steps, jobs))
        return results


class NullTrainer(Tickets):
    """Trains nothing: for runs that ask for time and energy only.

    Losses, vectors, accuracy are None; the numbers of samples are those of real training.
    """

    def __init__(self, num_samples: IntArray, num_evaluated: IntArray | None = None) -> None:
        """Build it.

        Args:
            num_samples: training samples of every client [N].
            num_evaluated: samples that each judges models on [N]; None: those that it trains with.
        """
        super().__init__(num_samples)
        self._num_samples = num_samples
        self._num_evaluated = num_samples if num_evaluated is None else num_evaluated

    def _num_samples_of(self, job: Job) -> int:
        """How many samples a job runs over."""
        if job.work.kind is WorkKind.NONE:
            return 0
        is_evaluation = job.work.kind is WorkKind.EVALUATE
        available = int((self._num_evaluated if is_evaluation else self._num_samples)[job.client])
        return available if job.work.num_samples is None else min(job.work.num_samples, available)

    def _compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        return [JobResult(num_samples=self._num_samples_of(job)) for job in jobs]

    def evaluate(self, parameters: Parameters) -> Evaluation:
        """Nothing is known of a model that nobody trains."""
        return Evaluation(accuracy=None, loss=None)

    def validate(self, parameters: Parameters) -> Evaluation | None:
        """Nothing is kept for selectors either."""
        return None
