"""Preparation of a scenario's learning task: data, partition, model and trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from fleetsim.contracts import BoolArray, IntArray, ModelCost, Parameters, Trainer
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.compression import CompressionSettings, compressed_byte
from fleetsim.learning.data.blank import BlankSettings, blank_sizes
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.prefetch import Prefetch
from fleetsim.learning.kernels.base import TrainerData
from fleetsim.learning.kernels.cpu.numerical_platform import require_portable, resolve
from fleetsim.learning.local.step_memory import step_memory
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.partition.client_samples import ClientSamples, split_samples
from fleetsim.learning.partition.holdout import num_held
from fleetsim.learning.training.settings import TaskSettings, TrainerSettings
from fleetsim.learning.training.trainer_choice import build_kernel, choose_trainer
from fleetsim.learning.training.trainers import DataTrainer, NullTrainer

UNTRAINED = "none"
"""Kind of trainer of a run without training."""


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """Learning task of a scenario, ready to train."""

    num_samples: IntArray
    """Training samples of every client [N]."""
    num_evaluated: IntArray
    """Samples on which every client evaluates models [N]."""
    parameters: Parameters
    """Initial model [P]."""
    buffers: BoolArray
    """True where the flat vector holds a buffer of the model, not a trained parameter [P]."""
    cost: ModelCost
    trainer: Trainer
    trainer_kind: str
    """Kind of trainer, `UNTRAINED` without training."""
    platform: dict[str, str]
    """Numerical platform of this process, by feature."""
    forms: dict[str, str]
    """Forms of computing that the kernel chose, by name; empty without training."""
    test_labels: IntArray | None
    """Labels of the server's test samples [m] or [m, t]; None without training."""

    def upload_byte(self, compression: CompressionSettings) -> int:
        """Return the bytes of one uploaded model: its floats compressed, all else as it is."""
        others_byte = self.cost.payload_byte - self.parameters.nbytes
        return others_byte + compressed_byte(compression, self.parameters.size)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples of a task: their shapes, their numbers per client and, unless blank, themselves."""

    input_shape: tuple[int, ...]
    num_classes: int
    vocabulary_size: int | None
    is_sequence: bool
    num_samples: IntArray
    num_evaluated: IntArray
    dataset: Dataset | None = None
    of_clients: ClientSamples | None = None


def prepare_task(
    task: TaskSettings,
    trainer: TrainerSettings,
    *,
    seed: int,
    num_clients: int,
    validation_fraction: float,
    measures_memory: bool,
    train: bool,
    torch_device: str,
    workers: int | None,
    prefetched: Prefetch | None = None,
) -> PreparedTask:
    """Load and split the data, build the model and choose the trainer.

    Args:
        task: data set, partition, model and local training.
        trainer: computation on the host.
        seed: root seed of the run.
        num_clients: size of the fleet N.
        validation_fraction: share of the training samples that the server keeps for selectors.
        measures_memory: whether `PreparedTask.cost` holds the memory of a step of local training.
        train: if false, models are not trained, and results have no loss and no accuracy.
        torch_device: "cpu" or "cuda".
        workers: processes that train, this one included; None: one for every core.
        prefetched: the task's data set, if reading has begun; None: it is read now.

    Raises:
        ScenarioError: the task cannot be prepared from these settings, or not on this machine.
        DataError: a file of the data set is missing or wrong.
    """
    require_portable(torch_device=torch_device)
    if isinstance(task.dataset, BlankSettings):
        if train:
            raise ScenarioError(
                "task.dataset.kind = 'blank' has nothing to train on; use --no-train or a data set"
            )
        samples = _blank_samples(task, task.dataset, seed=seed, num_clients=num_clients)
    else:
        if prefetched is None:
            dataset = load_dataset(task.dataset, seed=seed, num_clients=num_clients)
        else:
            dataset = prefetched.take()
        samples = _split(
            task,
            dataset,
            seed=seed,
            num_clients=num_clients,
            validation_fraction=validation_fraction,
        )
    module = build_model(
        task.model,
        input_shape=samples.input_shape,
        num_classes=samples.num_classes,
        vocabulary_size=samples.vocabulary_size,
        is_sequence=samples.is_sequence,
        seed=seed,
    )
    parameters, cost = flatten(module), model_cost(module, samples.input_shape)
    if measures_memory:
        cost = replace(cost, memory=step_memory(module, samples.input_shape, task.local))
    buffers = _buffers(module, num_values=parameters.size)
    if train:
        assert samples.dataset is not None  # a blank data set was refused above
        assert samples.of_clients is not None
        chosen = choose_trainer(trainer, task.model, torch_device=torch_device)
        kernel = build_kernel(
            chosen,
            module,
            _trainer_data(samples.dataset, samples.of_clients),
            precision=trainer.precision,
            local_settings=task.local,
            seed=seed,
            torch_device=torch_device,
        )
        kind: str = chosen
        made: Trainer = DataTrainer(kernel, workers=workers)
        platform, forms = resolve(torch_device=torch_device), kernel.forms()
        test_labels = samples.dataset.test_labels
    else:
        kind, made = UNTRAINED, NullTrainer(samples.num_samples, samples.num_evaluated)
        platform, forms, test_labels = resolve(torch_device="cpu"), {}, None
    return PreparedTask(
        num_samples=samples.num_samples,
        num_evaluated=samples.num_evaluated,
        parameters=parameters,
        buffers=buffers,
        cost=cost,
        trainer=made,
        trainer_kind=kind,
        platform=platform,
        forms=forms,
        test_labels=test_labels,
    )


def _blank_samples(
    task: TaskSettings, blank: BlankSettings, *, seed: int, num_clients: int
) -> _Samples:
    """Return the shapes and numbers of samples that do not exist."""
    sizes = blank_sizes(blank, seed=seed, num_clients=num_clients)
    num_held_out = num_held(sizes, task.holdout_fraction)
    num_samples = sizes - num_held_out
    return _Samples(
        input_shape=blank.input_shape,
        num_classes=blank.num_classes,
        vocabulary_size=None,
        is_sequence=False,
        num_samples=num_samples,
        num_evaluated=num_held_out if task.holdout_fraction > 0.0 else num_samples,
    )


def _split(
    task: TaskSettings,
    dataset: Dataset,
    *,
    seed: int,
    num_clients: int,
    validation_fraction: float,
) -> _Samples:
    """Return the samples of the server and of every client.

    Raises:
        ScenarioError: the data set cannot be split like this.
    """
    of_clients = split_samples(
        dataset,
        task.partition,
        num_clients=num_clients,
        validation_fraction=validation_fraction,
        holdout_fraction=task.holdout_fraction,
        holdout_from=task.holdout_from,
        seed=seed,
    )
    return _Samples(
        input_shape=dataset.sample_shape,
        num_classes=dataset.num_classes,
        vocabulary_size=dataset.vocabulary_size,
        is_sequence=dataset.train_labels.ndim > 1,
        num_samples=_sizes(of_clients.training),
        num_evaluated=_sizes(of_clients.evaluation),
        dataset=dataset,
        of_clients=of_clients,
    )


def _sizes(rows: Sequence[IntArray]) -> IntArray:
    return np.array([own.size for own in rows], dtype=np.int64)


def _trainer_data(dataset: Dataset, of_clients: ClientSamples) -> TrainerData:
    """Return the samples of all clients and of the server, as kernels take them."""
    return TrainerData(
        train_inputs=dataset.train_inputs,
        train_labels=dataset.train_labels,
        shares=of_clients.training,
        evaluated=of_clients.evaluation,
        test_inputs=dataset.test_inputs,
        test_labels=dataset.test_labels,
        validation_rows=of_clients.validation if of_clients.validation.size else None,
    )


def _buffers(module: nn.Module, *, num_values: int) -> BoolArray:
    """Return true where the flat vector of a model [P] holds no trained parameter."""
    buffers = np.zeros(num_values, dtype=np.bool_)
    for slot in layout(module):
        buffers[slot.start : slot.stop] = not slot.is_trained
    return buffers
