"""Preparation of a scenario's learning task: data, partition, model and trainer."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from fleetsim.contracts import ClientTraining, ModelCost, SampleForm, Trainer
from fleetsim.errors import ScenarioError
from fleetsim.kernels.cpu.numerical_platform import require_portable, resolve
from fleetsim.kernels.user_training import UserTrainingKernel
from fleetsim.learning.data.loading import Prefetch
from fleetsim.learning.local.step_memory import num_weight_copies, step_memory
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.flat_vector import flatten, frozen_sha256, layout, weights_text
from fleetsim.learning.models.model_kind import UserModelKind
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.paper_cost import CostSettings, refuse_training
from fleetsim.learning.models.settings import ModelSettings
from fleetsim.quoting import quoted
from fleetsim.training.dask_pool import DaskPool, DaskWorkers
from fleetsim.training.prepared_task import UNTRAINED, PreparedTask, TaskRequest, TaskSamples
from fleetsim.training.results_store import ResultsStore, context_of
from fleetsim.training.scenario_loss import check_scenario_loss, trainer_for_loss
from fleetsim.training.settings import TaskSettings, TrainerKind, TrainerSettings
from fleetsim.training.task_samples import samples_of_task
from fleetsim.training.trainer_choice import (
    ChoosesTrainer,
    TrainerQuestion,
    choose_trainer,
    kernel_class,
)
from fleetsim.training.trainers import DataTrainer, NullTrainer


def prepare_task(
    request: TaskRequest,
    *,
    train: bool,
    torch_device: str,
    workers: int | None,
    prefetched: Prefetch | None = None,
    results_cache: Path | None = None,
    cluster: DaskWorkers | None = None,
) -> PreparedTask:
    """Load and split the data, build the model and choose the trainer.

    Without `train`, results have no loss and no accuracy. `workers` processes train, this one
    included; None: one for every core. `prefetched` is the task's data set if reading has begun.
    `results_cache` is a folder of results of training, in which known ones are found. The workers
    of a `cluster` train in the place of processes.

    Raises:
        ScenarioError: the task cannot be prepared from these settings, or not on this machine.
        DataError: a file of the data set is missing or wrong.
    """
    require_portable(torch_device=torch_device)
    task, seed = request.task, request.seed
    if isinstance(task.model, CostSettings) and train:
        refuse_training()
    samples = samples_of_task(request, train=train, prefetched=prefetched)
    if isinstance(task.model, CostSettings):
        return _on_paper(request, task.model, samples)
    form = samples.form
    module = build_model(task.model, form, seed=seed)
    are_numbers = form.vocabulary_size is None
    wrong = task.local.augmentation.fault(form.input_shape, are_numbers=are_numbers)
    if wrong is not None:
        raise ScenarioError(f"task.local.augmentation.{wrong[0]}: {wrong[1]}")
    algorithm = task.local.algorithm.build()
    parameters, cost = flatten(module), _network_cost(module, request, form, algorithm)
    buffers = np.zeros(parameters.size, dtype=np.bool_)
    for slot in layout(module):
        buffers[slot.start : slot.stop] = not slot.is_trained
    is_users = isinstance(task.model, UserModelKind)
    frozen, text = frozen_sha256(module), weights_text(module) if is_users else None
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
        check_scenario_loss(task.local, module, form)
        requested = _serial(request.trainer) if is_accessed else request.trainer
        chosen, reason = _trainer_of(
            task.model,
            TrainerQuestion(
                requested, module, form, cost, samples.num_samples, task.local, torch_device
            ),
        )
        kind = chosen
        options: dict[str, Any] = {}
        if chosen == "vectorised":
            options["precision"] = request.trainer.precision
        if isinstance(task.model, UserModelKind):
            options |= {"seeds_draws": True, "user_code": task.model.label}
        elif task.local.has_other_loss:
            options["user_code"] = f"task.local.loss.kind = {quoted(task.local.loss.kind)}"
        of_kind = kernel_class(chosen, is_accessed=is_accessed)
        if algorithm is not None:
            of_kind, options["algorithm"] = UserTrainingKernel, algorithm
        build = partial(
            of_kind,
            module,
            samples.data,
            local_settings=task.local,
            seed=seed,
            torch_device=torch_device,
            **options,
        )
        if cluster is not None and is_accessed:
            raise ScenarioError(
                f"{cluster.place}: the data set makes its samples at each access, from files of"
                " this machine; leave --dask or transform_each_access out"
            )
        pool = None if cluster is None else DaskPool(build, cluster)
        kernel = build() if pool is None else pool.kernel
        forms = kernel.forms()
        store = None
        if results_cache is not None and not _is_users_code(task) and not is_accessed:
            store = ResultsStore(
                results_cache,
                context_of(
                    {
                        "model": task.model.model_dump(mode="json"),
                        # Jobs name the clock, which changes no result, and partial trainings.
                        "local": task.local.model_dump(
                            mode="json", exclude={"clock_fraction", "partial_fraction"}
                        ),
                        "kernel": of_kind.__name__,
                        "precision": request.trainer.precision,
                        "forms": forms,
                        "platform": resolve(torch_device=torch_device),
                        "seed": seed,
                        "frozen": frozen,
                        "data": samples.content_sha256 and samples.content_sha256(),
                        "split": samples.split_sha256,
                    }
                ),
            )
        trainer = DataTrainer(kernel, workers=workers, store=store, pool=pool)
    return PreparedTask(
        samples=replace(samples, data=None, content_sha256=None),
        parameters=parameters,
        buffers=buffers,
        cost=cost,
        trainer=trainer,
        trainer_kind=kind,
        trainer_reason=reason,
        platform=resolve(torch_device=torch_device if train else "cpu"),
        forms=forms,
        test_labels=samples.data.test_labels if train and samples.data is not None else None,
        frozen_sha256=frozen,
        weights_text=text,
        algorithm=algorithm,
    )


def _is_users_code(task: TaskSettings) -> bool:
    """Return whether results follow from the user's own code, and what it reads, too."""
    parts = (task.model, task.local.loss, task.local.algorithm)
    return any(not type(part).__module__.startswith("fleetsim.learning.") for part in parts)


def _serial(requested: TrainerSettings) -> TrainerSettings:
    """Return the serial trainer, for samples that are made at each access."""
    if requested.kind not in ("auto", "serial"):
        raise ScenarioError(
            f"trainer.kind: {requested.kind} reads samples once, but the data set makes them at"
            " each access; use auto or serial, or leave transform_each_access out"
        )
    return requested.model_copy(update={"kind": "serial"})


def _on_paper(request: TaskRequest, model: CostSettings, samples: TaskSamples) -> PreparedTask:
    algorithm, copies = request.task.local.algorithm.build(), None
    if request.measures_memory:
        copies = num_weight_copies(request.task.local, num_more=_num_copies(algorithm))
    return PreparedTask(
        samples=replace(samples, data=None, content_sha256=None),
        parameters=np.zeros(1, dtype=np.float32),
        buffers=np.zeros(1, dtype=np.bool_),
        cost=replace(model.cost(num_copies=copies), train_factor=_train_factor(algorithm)),
        trainer=NullTrainer(samples.num_samples, samples.num_evaluated),
        platform=resolve(torch_device="cpu"),
        algorithm=algorithm,
        paper=model,
    )


def _trainer_of(model: ModelSettings, asked: TrainerQuestion) -> tuple[TrainerKind, str | None]:
    """Return the kind of trainer, with the reason for a network or loss of the user's own."""
    if isinstance(model, ChoosesTrainer):
        return model.proved_trainer(asked)
    local = asked.local
    kind = choose_trainer(asked.requested, model, local, torch_device=asked.torch_device)
    if not local.has_other_loss:
        return kind, None
    return trainer_for_loss(kind, asked.requested, asked.module, asked.samples, local)


def _network_cost(
    module: nn.Module, request: TaskRequest, form: SampleForm, algorithm: ClientTraining | None
) -> ModelCost:
    """Return the cost of a network, with the memory of a step if that is measured."""
    model = request.task.model
    if isinstance(model, UserModelKind):
        cost = model.counted_cost(module, form)
    else:
        cost = model_cost(module, form.input_shape)
    if request.measures_memory:
        memory = step_memory(
            module,
            form.input_shape,
            request.task.local,
            num_more_copies=_num_copies(algorithm),
            takes_tokens=form.vocabulary_size is not None,
            label_shape=form.input_shape[:1] if form.is_sequence else (),
        )
        cost = replace(cost, memory=memory)
    return replace(cost, train_factor=_train_factor(algorithm))


def _train_factor(algorithm: ClientTraining | None) -> float:
    """Return the work of a step divided by that of a plain one."""
    return float(getattr(algorithm, "train_factor", 1.0))


def _num_copies(algorithm: ClientTraining | None) -> int:
    return int(getattr(algorithm, "num_copies", 0))
