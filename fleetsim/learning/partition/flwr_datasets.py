"""Partitions by the partitioners of the library flwr-datasets, the extra `fleetsim[flwr-datasets]`.

A partitioner gets a table with the number, label and natural client of every training sample, and
the numbers in its partitions are read back. docs/data.md has an example.
"""

import importlib
import inspect
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.host.user_code import user_code
from fleetsim.learning import global_generators
from fleetsim.learning.partition.partition_kind import PartitionKind

_MOST = 1_000_000_000_000
_PURPOSE = "partition/flwr-datasets"
_SEEDS = 1 << 32
_NATURAL = ("NaturalIdPartitioner", "GroupedNaturalIdPartitioner")
_FILLED = {
    "num_partitions": "fleet.size is the number of partitions",
    "seed": "it follows from the scenario's seed",
}
"""Arguments that the scenario gives already."""

Number = (
    Annotated[int, Field(ge=-_MOST, le=_MOST)]
    | Annotated[float, Field(ge=-_MOST, le=_MOST, allow_inf_nan=False)]
)
Argument = bool | Number | str | tuple[Number, ...] | tuple[tuple[Number, ...], ...]


class FlwrDatasetsSettings(PartitionKind):
    """A partitioner of the library flwr-datasets."""

    kind: Literal["flwr-datasets"] = "flwr-datasets"
    partitioner: Literal[
        "ContinuousPartitioner",
        "DirichletPartitioner",
        "DistributionPartitioner",
        "ExponentialPartitioner",
        "GroupedNaturalIdPartitioner",
        "IidPartitioner",
        "InnerDirichletPartitioner",
        "LinearPartitioner",
        "NaturalIdPartitioner",
        "PathologicalPartitioner",
        "ShardPartitioner",
        "SizePartitioner",
        "SquarePartitioner",
    ]
    """Its class."""
    arguments: Annotated[dict[str, Argument], Field(default_factory=dict)]
    """Arguments of its constructor. `num_partitions` is the size of the fleet and `seed` follows
    from the scenario's; `partition_by` is `label`, or `client` of the natural ones."""

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of the first N partitions."""
        try:
            partitioners = importlib.import_module("flwr_datasets.partitioner")
            table: Any = importlib.import_module("datasets").Dataset
        except ModuleNotFoundError:
            raise ScenarioError(
                "task.partition.kind: flwr-datasets needs the library of this name; pip install"
                " 'fleetsim[flwr-datasets]'"
            ) from None
        partitioner = self._made(partitioners, num_clients, seed)
        columns: dict[str, Any] = {"row": np.arange(len(labels)), "label": labels}
        if owner is not None:
            columns["client"] = owner
        elif self.partitioner in _NATURAL:
            raise ScenarioError(
                f"task.partition.partitioner: {self.partitioner} needs a data set with clients of"
                " its own; choose another, or such a data set"
            )
        parts = []
        with global_generators.restored():
            global_generators.seed(seed, _PURPOSE)
            with user_code(f"task.partition.partitioner: {self.partitioner}", ScenarioError):
                partitioner.dataset = table.from_dict(columns)
                num = partitioner.num_partitions
                for client in range(min(num, num_clients)):
                    rows = partitioner.load_partition(client)[:]["row"]
                    parts.append(np.sort(np.asarray(rows, dtype=np.int64)))
        if num < num_clients:
            raise ScenarioError(
                f"fleet.size: {num_clients} clients, but {self.partitioner} makes {num} partitions;"
                f" set fleet.size to {num} or less, or change task.partition.arguments"
            )
        empty = [client for client, part in enumerate(parts) if not part.size]
        if empty:
            raise ScenarioError(
                f"task.partition.arguments: client {empty[0]} gets no samples from"
                f" {self.partitioner}; change them, or lower fleet.size"
            )
        return tuple(parts)

    def _made(self, partitioners: ModuleType, num_clients: int, seed: int) -> Any:
        partitioner = getattr(partitioners, self.partitioner, None)
        if partitioner is None:
            raise ScenarioError(
                f"task.partition.partitioner: this version of flwr-datasets has no"
                f" {self.partitioner}; install a later one"
            )
        takes = inspect.signature(partitioner).parameters
        accepted = [name for name in takes if name not in _FILLED]
        for name in self.arguments:
            if name in accepted:
                continue
            if name in takes:
                message = f"leave it out, {_FILLED[name]}"
            else:
                has = ", ".join(accepted) or "none"
                message = f"{self.partitioner} has no such argument; it has {has}"
            raise ScenarioError(f"task.partition.arguments.{name}: {message}")
        filled: dict[str, Any] = {
            "num_partitions": num_clients,
            "seed": rng.torch_seed(seed, _PURPOSE) % _SEEDS,
            "partition_by": "client" if self.partitioner in _NATURAL else "label",
        }
        arguments = {name: value for name, value in filled.items() if name in takes}
        arguments |= {name: _plain(value) for name, value in self.arguments.items()}
        with user_code(f"task.partition.arguments: {self.partitioner}", ScenarioError):
            return partitioner(**arguments)


def _plain(value: Argument) -> Any:
    """Return a value of the scenario as a partitioner takes it: a list, or a table as an array."""
    if not isinstance(value, tuple):
        return value
    return np.array(value) if value and isinstance(value[0], tuple) else list(value)
