"""Partitions that a scenario can name, and the call that splits samples by one of them.

A client always has at least one sample. Clients never share one.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.dirichlet import ClientDirichletSettings, DirichletSettings
from fleetsim.learning.partition.flwr_datasets import FlwrDatasetsSettings
from fleetsim.learning.partition.plain import (
    IidSettings,
    NaturalSettings,
    OneClassSettings,
    PartlyIidSettings,
    ShardsSettings,
)
from fleetsim.schema.strict_yaml import spelled

PartitionSettings = Annotated[
    IidSettings
    | DirichletSettings
    | ShardsSettings
    | NaturalSettings
    | ClientDirichletSettings
    | OneClassSettings
    | PartlyIidSettings
    | FlwrDatasetsSettings,
    Field(discriminator="kind"),
]


def split(
    settings: PartitionSettings,
    *,
    labels: IntArray,
    owner: IntArray | None,
    num_clients: int,
    seed: int,
) -> tuple[IntArray, ...]:
    """Return the training samples of every client, as `PartitionKind.split`, with its errors."""
    fault = settings.shortage(num_samples=len(labels), num_clients=num_clients)
    if labels.ndim == 1 and fault is None:
        num_labels = len(np.unique(labels))
        fault = settings.wrong_fleet_size(num_clients=num_clients, num_labels=num_labels)
    if fault is not None:
        raise ScenarioError(f"{spelled(fault[0])}: {fault[1]}")
    if labels.ndim > 1 and not settings.splits_sequences:
        raise ScenarioError(
            f"task.partition.kind: {settings.kind} splits by label, but every sample of this data "
            f"set is a sequence with {labels.shape[1]} of them; choose iid or natural"
        )
    return settings.split(labels=labels, owner=owner, num_clients=num_clients, seed=seed)
