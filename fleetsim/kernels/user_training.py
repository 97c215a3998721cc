"""Kernel of clients' own training, one client at a time."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fleetsim.contracts import ClientTraining, Job, JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.learning.local.algorithms.client_data import ClientData, run_algorithm
from fleetsim.learning.local.sample_losses import losses_of
from fleetsim.learning.models.flat_vector import FrozenWeights


class UserTrainingKernel(Kernel):
    """Serial kernel whose clients train by an algorithm; gradients and evaluations are as usual."""

    def __init__(self, *args: Any, algorithm: ClientTraining, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._algorithm = algorithm
        self._frozen = FrozenWeights(self.module)

    def _train(self, jobs: Sequence[Job]) -> list[JobResult]:
        return [self._train_one(job) for job in jobs]

    def _train_one(self, job: Job) -> JobResult:
        inputs, labels = self._samples(self._data.shares[job.client])
        evaluated, smoothing = self._data.evaluated, self._local_settings.label_smoothing
        data = ClientData(
            client=job.client,
            inputs=inputs,
            labels=labels,
            state=job.state or {},
            received=job.received or {},
            losses=losses_of(self.module, self._scenario_loss, label_smoothing=smoothing),
            scenario_loss=self._scenario_loss,
            settings=self._settings_of(job),
            epochs=job.work.epochs,
            most_steps=job.most_steps,
            step_stream=self._step_stream(job),
            evaluation=None if evaluated is None else partial(self._samples, evaluated[job.client]),
        )
        with self._of_job(job):
            result = run_algorithm(
                self._algorithm, self.module, job.base, data, self._stream(job), self._frozen
            )
        tells = job.work.tells_epoch_losses
        return result if tells else result._replace(epoch_losses=None)
