"""Partition in which each label's samples are shared by a symmetric Dirichlet distribution.

Client k gets the share p_lk of the n_l samples of label l, p_l ~ Dir_N(alpha).

Sources: Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
visual classification", arXiv:1909.06335; in the per-label form of Li, Diao, Chen, He, "Federated
learning on non-IID data silos: an experimental study", ICDE 2022.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.errors import ScenarioError
from fleetsim.learning.partition.membership import members
from fleetsim.learning.partition.partition_kind import PartitionKind, too_many_each
from fleetsim.rng import stream
from fleetsim.schema.faults import Fault
from fleetsim.schema.ranges import Samples

_MAX_ATTEMPTS = 1000
"""Draws of a split before the scenario is called infeasible."""


class DirichletSettings(PartitionKind):
    """Clients' shares of each label from a symmetric Dirichlet distribution."""

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: Annotated[float, Field(ge=1e-6, le=1e6)]
    """Concentration: large values give every client all labels alike, small ones few labels each
    and unequal numbers of samples."""
    min_samples: Samples = 10
    """Smallest number of samples of a client."""
    when_short: Literal["redraw", "top-up"] = "redraw"
    """Remedy if clients have fewer. redraw: the split is drawn again until none has; top-up: they
    get random samples of the client that has most, as where alpha is so small that most clients
    have none."""

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; together they are all samples.

        Whole samples come from rounding the cumulated shares down: client k gets those between
        floor(n_l * (p_l1 + .. + p_l(k-1))) and floor(n_l * (p_l1 + .. + p_lk)) of the label's
        samples in random order. Each attempt draws its shares from an address of its own.
        """
        values, label_sizes = np.unique(labels, return_counts=True)
        most = 0
        for attempt in range(_MAX_ATTEMPTS):
            edges = _label_edges(self.alpha, label_sizes, num_clients, seed, attempt)
            fewest = int(np.diff(edges, axis=1).sum(axis=0).min())
            if fewest >= self.min_samples or self.when_short == "top-up":
                break
            most = max(most, fewest)
        else:
            raise ScenarioError(
                f"task.partition.min_samples: in none of {_MAX_ATTEMPTS} draws had each of the "
                f"{num_clients} clients {self.min_samples} samples, {most} at most; lower it or "
                f"fleet.size, raise task.partition.alpha above {self.alpha:g}, or set "
                "task.partition.when_short to top-up"
            )
        client_of = np.empty(len(labels), dtype=np.int64)
        for label, row in zip(values, edges, strict=True):
            order = stream(seed, "partition/dirichlet-order", label).permutation(
                np.flatnonzero(labels == label)
            )
            client_of[order] = np.repeat(np.arange(num_clients), np.diff(row))
        _top_up(client_of, num_clients, self.min_samples, seed)
        return members(client_of, num_clients)

    def shortage(self, *, num_samples: int, num_clients: int) -> Fault | None:
        """Return the fault of more samples per client than there are."""
        return too_many_each(
            "min_samples",
            self.min_samples,
            "samples each need",
            num_samples=num_samples,
            num_clients=num_clients,
        )


def _top_up(client_of: IntArray, num_clients: int, min_samples: int, seed: int) -> None:
    """Move samples to each client that has too few, in ascending order of clients, in place.

    Each gift comes from the client that has most at that time, which keeps `min_samples` itself.
    There are enough samples for all, so the largest client has more than that while another has
    fewer.
    """
    sizes = np.bincount(client_of, minlength=num_clients)
    for short in np.flatnonzero(sizes < min_samples).tolist():
        draws = stream(seed, "partition/dirichlet-top-up", short)
        while sizes[short] < min_samples:
            giver = int(sizes.argmax())
            num = min(min_samples - sizes[short], sizes[giver] - min_samples)
            given = draws.choice(np.flatnonzero(client_of == giver), num, replace=False)
            client_of[given] = short
            sizes[giver] -= num
            sizes[short] += num


def _label_edges(
    alpha: float, label_sizes: IntArray, num_clients: int, seed: int, attempt: int
) -> IntArray:
    """Return the places at which each label's samples are cut [labels, N+1]."""
    shares = stream(seed, "partition/dirichlet", attempt).dirichlet(
        np.full(num_clients, alpha), size=len(label_sizes)
    )
    inner = np.floor(np.cumsum(shares, axis=1)[:, :-1] * label_sizes[:, None]).astype(np.int64)
    return np.hstack([np.zeros((len(label_sizes), 1), dtype=np.int64), inner, label_sizes[:, None]])
