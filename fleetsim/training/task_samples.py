"""Samples of a learning task: their form, their numbers by client, and themselves."""

import hashlib
from collections.abc import Sequence
from functools import partial

import numpy as np

from fleetsim.contracts import IntArray, SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import TrainerData
from fleetsim.learning.data.built_in import BlankSettings, blank_sizes
from fleetsim.learning.data.dataset import Dataset, content_sha256
from fleetsim.learning.data.loading import Prefetch, load_dataset
from fleetsim.learning.partition.client_samples import num_held, split_samples
from fleetsim.learning.partition.partition_kind import label_coverage
from fleetsim.training.prepared_task import TaskRequest, TaskSamples


def samples_of_task(
    request: TaskRequest, *, train: bool, prefetched: Prefetch | None = None
) -> TaskSamples:
    """Load and split the samples of a task; see `preparation.prepare_task`."""
    dataset = request.task.dataset
    if isinstance(dataset, BlankSettings):
        if train:
            raise ScenarioError(
                "task.dataset.kind = 'blank' has nothing to train on; use --no-train or a data set"
            )
        return _blank_samples(request, dataset)
    if prefetched is not None:
        read = prefetched.take()
    else:
        read = load_dataset(dataset, seed=request.clients_seed, num_clients=request.num_clients)
    return _split(request, read, is_users=dataset.has_user_files)


def _blank_samples(request: TaskRequest, blank: BlankSettings) -> TaskSamples:
    sizes = blank_sizes(blank, seed=request.clients_seed, num_clients=request.num_clients)
    num_held_out = num_held(sizes, request.task.holdout_fraction)
    num_samples = sizes - num_held_out
    return TaskSamples(
        form=SampleForm(blank.input_shape, blank.num_classes),
        num_samples=num_samples,
        num_evaluated=num_held_out if request.task.holdout_fraction > 0.0 else num_samples,
    )


def _split(request: TaskRequest, dataset: Dataset, *, is_users: bool) -> TaskSamples:
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
        np.array([share.size for share in rows], dtype=np.int64)
        for rows in (of_clients.training, of_clients.evaluation)
    )
    is_sequence = dataset.train_labels.ndim > 1
    content = partial(content_sha256, dataset)
    coverage = None
    if not is_sequence:
        coverage = label_coverage(of_clients.training, dataset.train_labels, dataset.num_classes)
    return TaskSamples(
        form=SampleForm(
            dataset.sample_shape, dataset.num_classes, dataset.vocabulary_size, is_sequence
        ),
        num_samples=num_samples,
        num_evaluated=num_evaluated,
        label_coverage=coverage,
        owners=of_clients.owners,
        split_sha256=_sha256([of_clients.validation, *of_clients.training, *of_clients.evaluation]),
        content_sha256=content,
        data_sha256=content() if is_users else None,
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


def _sha256(rows: Sequence[IntArray]) -> str:
    digest = hashlib.sha256(np.array([share.size for share in rows], dtype=np.int64).tobytes())
    for share in rows:
        digest.update(share.astype(np.int64).tobytes())
    return digest.hexdigest()
