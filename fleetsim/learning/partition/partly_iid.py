"""Partition in which some clients have samples of all labels and the others of few.

Clients 0 .. m-1 have samples drawn at random from all, so that their data resemble the test set.
The others get runs of the rest, sorted by label and in random order within one. The laws and their
source are in docs/data.md; the source has 1 to 5 such clients, here 0 to 4.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.rng import stream
from fleetsim.rounding import ROUNDING_SLACK
from fleetsim.schema.faults import Fault
from fleetsim.schema.ranges import Clients, Samples


class PartlyIidSettings(PartitionKind):
    """The first clients with samples of all labels alike, the others with few labels each."""

    kind: Literal["partly-iid"] = "partly-iid"
    num_iid: Clients
    """Clients with i.i.d. samples; they are the first of the fleet, 0 to num_iid - 1."""
    runs_per_client: Samples = 1
    """Runs of the samples sorted by label that each other client gets, so about as many labels."""
    size_sigma: Annotated[float, Field(ge=0.0, le=3.0)] = 0.0
    """Standard deviation of the logarithm of the clients' numbers of samples; 0: all alike."""

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; together they are all samples."""
        sizes = _sizes(self.size_sigma, len(labels), num_clients, seed)
        runs_of = np.where(np.arange(num_clients) < self.num_iid, 1, self.runs_per_client)
        short = np.flatnonzero(sizes < runs_of)
        if short.size:
            k = int(short[0])
            raise ScenarioError(
                f"task.partition.size_sigma: client {k} would have {sizes[k]} of the {len(labels)}"
                f" samples, and needs {runs_of[k]} at least; lower it, or runs_per_client, or"
                " fleet.size"
            )
        order = stream(seed, "partition/partly-iid").permutation(len(labels))
        ends = np.cumsum(sizes[: self.num_iid])
        *alike, rest = np.split(order, ends)
        by_label = rest[np.argsort(labels[rest], kind="stable")]
        return (*map(np.sort, alike), *_runs(self, by_label, sizes[self.num_iid :], seed))

    def wrong_fleet_size(self, *, num_clients: int, num_labels: int | None) -> Fault | None:
        """Return the fault of more i.i.d. clients than the fleet has."""
        if self.num_iid <= num_clients:
            return None
        message = (
            f"{self.num_iid} clients are to have i.i.d. samples, but the fleet has {num_clients};"
            f" lower it to {num_clients} or less"
        )
        return ("task", "partition", "num_iid"), message


def _sizes(sigma: float, num_samples: int, num_clients: int, seed: int) -> IntArray:
    """Return the sizes of all clients [N], which add up to n: cumulated shares rounded down."""
    draws = stream(seed, "partition/partly-iid-sizes").standard_normal(num_clients)
    shares = np.exp(sigma * draws)
    inner = np.floor(num_samples * np.cumsum(shares)[:-1] / shares.sum() + ROUNDING_SLACK)
    return np.diff(np.concatenate([[0], inner.astype(np.int64), [num_samples]]))


def _runs(
    settings: PartlyIidSettings, by_label: IntArray, sizes: IntArray, seed: int
) -> list[IntArray]:
    """Return the samples of the other clients, which take their runs in random order."""
    num_runs = settings.runs_per_client
    # A client's runs differ by one sample at most.
    lengths = (sizes[:, None] + np.arange(num_runs)) // num_runs
    order = stream(seed, "partition/partly-iid-runs").permutation(lengths.size)
    client_of = np.repeat(order // num_runs, lengths.ravel()[order])
    return [np.sort(by_label[client_of == client]) for client in range(len(sizes))]
