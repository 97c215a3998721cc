"""Preparation of a scenario's learning task: data, partition, model and trainer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from fleetsim.contracts import (
    BoolArray,
    ClientTraining,
    FloatArray,
    IntArray,
    ModelCost,
    Parameters,
    Trainer,
)
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.compression import CompressionSettings
from fleetsim.learning.data.blank import BlankSettings, blank_sizes
from fleetsim.learning.data.content_hash import content_sha256
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.prefetch import Prefetch
from fleetsim.learning.kernels.base import TrainerData
from fleetsim.learning.kernels.cpu.numerical_platform import require_portable, resolve
from fleetsim.learning.kernels.own_training import OwnTrainingKernel
from fleetsim.learning.local.step_memory import step_memory
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.flat_vector import flatten, layout
from fleetsim.learning.models.model_kind import SampleForm
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.own.own_cost import own_cost
from fleetsim.learning.models.own.own_model import OwnModelKind
from fleetsim.learning.models.paper_cost import CostSettings, refuse_training
from fleetsim.learning.partition.client_samples import split_samples
from fleetsim.learning.partition.holdout import num_held
from fleetsim.learning.partition.membership import label_coverage
from fleetsim.learning.training.own.trainer_choice import checked_trainer
from fleetsim.learning.training.settings import TaskSettings, TrainerKind, TrainerSettings
from fleetsim.learning.training.trainer_choice import choose_trainer, kernel_class
from fleetsim.learning.training.trainers import DataTrainer, NullTrainer
from fleetsim.quoting import quoted

UNTRAINED = "none"
"""Kind of trainer of a run without training."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Learning task and trainer that a scenario asks for."""

    task: TaskSettings
    """Data set, partition, model and local training."""
    trainer: TrainerSettings
    """Computation on the host."""
    seed: int
    """Root seed of the run."""
    clients_seed: int
    """Seed of the data and of who holds which samples."""
    num_clients: int
    """Size of the fleet N."""
    validation_fraction: float = 0.0
    """Share of the training samples that the server keeps for selectors."""
    measures_memory: bool = False
    """True if `PreparedTask.cost` holds the memory of a step of local training."""
    paired: Collection[str] | None = None
    """Names of the natural clients with a usage record, of which alone clients are made; None: of
    all."""


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
    trainer_reason: str | None
    """Reason for that trainer, for a network of the user's own; None for fleetsim's."""
    platform: dict[str, str]
    """Numerical platform of this process, by feature."""
    forms: dict[str, str]
    """Forms of computing that the kernel chose, by name; empty without training."""
    test_labels: IntArray | None
    """Labels of the server's test samples [m] or [m, t]; None without training."""
    label_coverage: FloatArray | None = None
    """Share of all labels that each client's training samples have [N]; None: no single labels."""
    owners: tuple[str, ...] | None = None
    """Name of the natural client that each client is [N]; None: a partition without them."""
    data_sha256: str | None = None
    """SHA-256 of the content of the user's own data set; None: it is none."""
    algorithm: ClientTraining | None = None
    """Own training of the clients; None: the built-in one."""
    paper: CostSettings | None = None
    """Model that exists on paper only; None: a network. `parameters` then has no meaning."""

    def upload_byte(self, compression: CompressionSettings) -> int:
        """Return the bytes of one uploaded model: its floats compressed, all else as it is."""
        if self.paper is not None:
            if self.paper.has_wire_sizes:
                return self.paper.upload_byte or self.cost.payload_byte
            return compression.num_byte(self.cost.num_parameters)
        others_byte = self.cost.payload_byte - self.parameters.nbytes
        return others_byte + compression.num_byte(self.parameters.size)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples of a task: their shapes, their numbers per client and, unless blank, themselves."""

    input_shape: tuple[int, ...]
    num_classes: int
    num_samples: IntArray
    num_evaluated: IntArray
    vocabulary_size: int | None = None
    is_sequence: bool = False
    label_coverage: FloatArray | None = None
    data: TrainerData | None = None
    owners: tuple[str, ...] | None = None
    data_sha256: str | None = None

    @property
    def form(self) -> SampleForm:
        """Form of the samples, for which a network is built."""
        return SampleForm(
            self.input_shape, self.num_classes, self.vocabulary_size, self.is_sequence
        )


def prepare_task(
    request: TaskRequest,
    *,
    train: bool,
    torch_device: str,
    workers: int | None,
    prefetched: Prefetch | None = None,
) -> PreparedTask:
    """Load and split the data, build the model and choose the trainer.

    Args:
        request: task and trainer.
        train: if false, models are not trained, and results have no loss and no accuracy.
        torch_device: "cpu" or "cuda".
        workers: processes that train, this one included; None: one for every core.
        prefetched: the task's data set, if reading has begun; None: it is read now.

    Raises:
        ScenarioError: the task cannot be prepared from these settings, or not on this machine.
        DataError: a file of the data set is missing or wrong.
    """
    require_portable(torch_device=torch_device)
    task, seed = request.task, request.seed
    if isinstance(task.model, CostSettings) and train:
        refuse_training()
    if isinstance(task.dataset, BlankSettings):
        if train:
            raise ScenarioError(
                "task.dataset.kind = 'blank' has nothing to train on; use --no-train or a data set"
            )
        samples = _blank_samples(request, task.dataset)
    elif prefetched is None:
        dataset = load_dataset(
            task.dataset, seed=request.clients_seed, num_clients=request.num_clients
        )
        samples = _split(request, dataset)
    else:
        samples = _split(request, prefetched.take())
    if isinstance(task.model, CostSettings):
        return _on_paper(request, task.model, samples)
    module = build_model(
        task.model,
        input_shape=samples.input_shape,
        num_classes=samples.num_classes,
        vocabulary_size=samples.vocabulary_size,
        is_sequence=samples.is_sequence,
        seed=seed,
    )
    are_numbers = samples.vocabulary_size is None
    wrong = task.local.augmentation.fault(samples.input_shape, are_numbers=are_numbers)
    if wrong is not None:
        raise ScenarioError(f"task.local.augmentation.{wrong[0]}: {wrong[1]}")
    algorithm = task.local.algorithm.build()
    parameters, cost = flatten(module), _cost_of(module, request, samples, algorithm)
    buffers = np.zeros(parameters.size, dtype=np.bool_)
    for slot in layout(module):
        buffers[slot.start : slot.stop] = not slot.is_trained
    kind: str = UNTRAINED
    trainer: Trainer = NullTrainer(samples.num_samples, samples.num_evaluated)
    forms: dict[str, str] = {}
    reason = None
    if train:
        assert samples.data is not None  # a blank data set was refused above
        is_accessed = samples.data.accessed is not None
        if is_accessed and algorithm is not None:
            raise ScenarioError(
                f"task.local.algorithm.kind = {quoted(task.local.algorithm.kind)} needs samples"
                " that stay the same, and this data set makes them at each access; leave one out"
            )
        wanted = _serial(request.trainer) if is_accessed else request.trainer
        chosen, reason = _trainer_of(module, request, wanted, samples, cost, torch_device)
        kind = chosen
        options: dict[str, Any] = {}
        if chosen == "vectorised":
            options["precision"] = request.trainer.precision
        if isinstance(task.model, OwnModelKind):
            options["seeds_draws"] = True
        of_kind = kernel_class(chosen, is_accessed=is_accessed)
        if algorithm is not None:
            of_kind, options["algorithm"] = OwnTrainingKernel, algorithm
        kernel = of_kind(
            module,
            samples.data,
            local_settings=task.local,
            seed=seed,
            torch_device=torch_device,
            **options,
        )
        trainer, forms = DataTrainer(kernel, workers=workers), kernel.forms()
    return PreparedTask(
        num_samples=samples.num_samples,
        num_evaluated=samples.num_evaluated,
        parameters=parameters,
        buffers=buffers,
        cost=cost,
        trainer=trainer,
        trainer_kind=kind,
        trainer_reason=reason,
        platform=resolve(torch_device=torch_device if train else "cpu"),
        forms=forms,
        test_labels=samples.data.test_labels if train and samples.data is not None else None,
        label_coverage=samples.label_coverage,
        owners=samples.owners,
        data_sha256=samples.data_sha256,
        algorithm=algorithm,
    )


def _is_own(task: TaskSettings) -> bool:
    """Return whether the data set is the user's own, which no checksum verifies."""
    return not isinstance(task.dataset, BlankSettings) and task.dataset.is_own_files


def _serial(wanted: TrainerSettings) -> TrainerSettings:
    """Return the serial trainer, for samples that are made at each access.

    Raises:
        ScenarioError: the scenario asks for another one.
    """
    if wanted.kind not in ("auto", "serial"):
        raise ScenarioError(
            f"trainer.kind: {wanted.kind} reads samples once, but the data set makes them at each"
            " access; use auto or serial, or leave transform_each_access out"
        )
    return wanted.model_copy(update={"kind": "serial"})


def _on_paper(request: TaskRequest, model: CostSettings, samples: _Samples) -> PreparedTask:
    """Return the task of a model that exists on paper only, without a network."""
    local = request.task.local
    algorithm = local.algorithm.build()
    num_copies = 2 + local.optimizer.num_moments + bool(local.proximal_mu)
    num_copies += getattr(algorithm, "num_copies", 0)
    cost = model.cost(num_copies=num_copies if request.measures_memory else None)
    return PreparedTask(
        num_samples=samples.num_samples,
        num_evaluated=samples.num_evaluated,
        parameters=np.zeros(1, dtype=np.float32),
        buffers=np.zeros(1, dtype=np.bool_),
        cost=replace(cost, train_factor=getattr(algorithm, "train_factor", 1.0)),
        trainer=NullTrainer(samples.num_samples, samples.num_evaluated),
        trainer_kind=UNTRAINED,
        trainer_reason=None,
        platform=resolve(torch_device="cpu"),
        forms={},
        test_labels=None,
        label_coverage=samples.label_coverage,
        owners=samples.owners,
        data_sha256=samples.data_sha256,
        algorithm=algorithm,
        paper=model,
    )


def _cost_of(
    module: nn.Module, request: TaskRequest, samples: _Samples, algorithm: ClientTraining | None
) -> ModelCost:
    """Return the cost of a network, with the memory of a step if that is measured.

    Raises:
        ScenarioError: the FLOP of a network of the user's own cannot be counted.
    """
    model, form = request.task.model, samples.form
    if isinstance(model, OwnModelKind):
        cost = own_cost(module, form, model)
    else:
        cost = model_cost(module, form.input_shape)
    cost = replace(cost, train_factor=getattr(algorithm, "train_factor", 1.0))
    if request.measures_memory:
        memory = step_memory(
            module,
            form.input_shape,
            request.task.local,
            num_more_copies=getattr(algorithm, "num_copies", 0),
            takes_tokens=form.vocabulary_size is not None,
        )
        cost = replace(cost, memory=memory)
    return cost


def _trainer_of(
    module: nn.Module,
    request: TaskRequest,
    wanted: TrainerSettings,
    samples: _Samples,
    cost: ModelCost,
    torch_device: str,
) -> tuple[TrainerKind, str | None]:
    """Return the kind of trainer, with the reason for a network of the user's own.

    Raises:
        ScenarioError: the scenario's trainer cannot train this network.
    """
    model, local = request.task.model, request.task.local
    if not isinstance(model, OwnModelKind):
        return choose_trainer(wanted, model, local, torch_device=torch_device), None
    chosen = checked_trainer(
        wanted,
        model,
        module,
        samples.form,
        cost=cost,
        num_samples=samples.num_samples,
        local=local,
        torch_device=torch_device,
    )
    return chosen.kind, chosen.reason


def _blank_samples(request: TaskRequest, blank: BlankSettings) -> _Samples:
    """Return the shapes and numbers of samples that do not exist."""
    sizes = blank_sizes(blank, seed=request.clients_seed, num_clients=request.num_clients)
    num_held_out = num_held(sizes, request.task.holdout_fraction)
    num_samples = sizes - num_held_out
    return _Samples(
        input_shape=blank.input_shape,
        num_classes=blank.num_classes,
        num_samples=num_samples,
        num_evaluated=num_held_out if request.task.holdout_fraction > 0.0 else num_samples,
    )


def _split(request: TaskRequest, dataset: Dataset) -> _Samples:
    """Return the samples of the server and of every client.

    Raises:
        ScenarioError: the data set cannot be split like this.
    """
    of_clients = split_samples(
        dataset,
        request.task.partition,
        num_clients=request.num_clients,
        validation_fraction=request.validation_fraction,
        holdout_fraction=request.task.holdout_fraction,
        holdout_from=request.task.holdout_from,
        seed=request.clients_seed,
        paired=request.paired,
    )
    num_samples, num_evaluated = (
        np.array([own.size for own in rows], dtype=np.int64)
        for rows in (of_clients.training, of_clients.evaluation)
    )
    is_sequence = dataset.train_labels.ndim > 1
    coverage = None
    if not is_sequence:
        coverage = label_coverage(of_clients.training, dataset.train_labels, dataset.num_classes)
    return _Samples(
        input_shape=dataset.sample_shape,
        num_classes=dataset.num_classes,
        num_samples=num_samples,
        num_evaluated=num_evaluated,
        vocabulary_size=dataset.vocabulary_size,
        is_sequence=is_sequence,
        label_coverage=coverage,
        owners=of_clients.owners,
        data_sha256=content_sha256(dataset) if _is_own(request.task) else None,
        data=TrainerData(
            train_inputs=dataset.train_inputs,
            train_labels=dataset.train_labels,
            shares=of_clients.training,
            evaluated=of_clients.evaluation,
            test_inputs=dataset.test_inputs,
            test_labels=dataset.test_labels,
            validation_rows=of_clients.validation if of_clients.validation.size else None,
            accessed=dataset.accessed,
        ),
    )
