"""Export of a scenario's data, partition and initial weights as plain arrays for the peers.

Peers must train on the same partition from the same weights. The export holds the samples sorted
by client, the offset of each client's first sample, the server's test set, and the initial model
as one flat vector in the order of its layers. Samples of a text are tokens.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from fleetsim.contracts import SampleForm
from fleetsim.errors import ScenarioError
from fleetsim.learning.data.built_in import BlankSettings
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.partition.client_samples import split
from fleetsim.scenario import Scenario

_HASH_LENGTH = 8


def export(scenario: Scenario, home: Path) -> Path:
    """Write the arrays of a scenario; replace those of an earlier call.

    The returned folder, NAME-HASH with the hash of the world, has `train_inputs [n, ...]`,
    `train_labels [n]`, or `[n, t]` of sequences, `offsets [N + 1]`, `test_inputs [m, ...]`,
    `test_labels [m]`, or `[m, t]`, `num_classes []`, of a text `vocabulary_size []`, and
    `initial [P]`, each an .npy file.

    Raises:
        ScenarioError: there is nothing to export, or the server keeps validation samples.
        DataError: the data set is missing or broken.
    """
    task, size, seed = scenario.task, scenario.fleet.size, scenario.clients_seed
    if isinstance(task.dataset, BlankSettings):
        raise ScenarioError("task.dataset.kind = 'blank' has no samples to export")
    if scenario.evaluate.validation_fraction:
        raise ScenarioError("evaluate.validation_fraction: peers keep no samples; remove the key")
    folder = home / f"{scenario.name}-{scenario.world_hash[:_HASH_LENGTH]}"
    dataset = load_dataset(task.dataset, seed=seed, num_clients=size)
    shares = split(
        task.partition,
        labels=dataset.train_labels,
        owner=dataset.owner,
        num_clients=size,
        seed=seed,
    )
    rows = np.concatenate(shares)
    form = SampleForm(
        dataset.sample_shape,
        dataset.num_classes,
        dataset.vocabulary_size,
        is_sequence=dataset.train_labels.ndim > 1,
    )
    network = build_model(task.model, form, seed=scenario.seed)
    arrays = {
        "train_inputs": dataset.train_inputs[rows],
        "train_labels": dataset.train_labels[rows],
        "offsets": np.cumsum([0, *(len(share) for share in shares)]),
        "test_inputs": dataset.test_inputs,
        "test_labels": dataset.test_labels,
        "num_classes": np.array(dataset.num_classes),
        "initial": flatten(network),
    }
    if dataset.vocabulary_size is not None:
        arrays["vocabulary_size"] = np.array(dataset.vocabulary_size)
    # Renamed when complete, so that an interrupted export is never taken for a whole one.
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return folder
