"""Partition in which each label's samples are shared by a symmetric Dirichlet distribution.

Client k gets the share p_lk of the n_l samples of label l, p_l ~ Dir_N(alpha); docs/data.md has the
sources.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import IntArray
from fleetsim.learning.partition.membership import first_with_enough, members, shuffled_by_label
from fleetsim.learning.partition.partition_kind import PartitionKind
from fleetsim.rng import stream
from fleetsim.schema.ranges import Samples


class DirichletSettings(PartitionKind):
    """Clients' shares of each label from a symmetric Dirichlet distribution."""

    needs_each: ClassVar[tuple[str, str] | None] = ("min_samples", "samples each need")

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
        """Return all samples by client; cumulated shares of a label are rounded down."""
        label_sizes = np.unique(labels, return_counts=True)[1]

        def counts(attempt: int) -> tuple[IntArray, IntArray]:
            """Draw the sizes of the clients [N], and the counts of each label [labels, N]."""
            shares = stream(seed, "partition/dirichlet", attempt).dirichlet(
                np.full(num_clients, self.alpha), size=len(label_sizes)
            )
            inner = np.floor(np.cumsum(shares, axis=1)[:, :-1] * label_sizes[:, None])
            edges = inner.astype(np.int64)
            drawn = np.diff(edges, prepend=0, append=label_sizes[:, None], axis=1)
            return drawn.sum(axis=0), drawn

        drawn = first_with_enough(
            counts,
            0 if self.when_short == "top-up" else self.min_samples,
            f"fleet.size, raise task.partition.alpha above {self.alpha:g}, or set"
            " task.partition.when_short to top-up",
        )
        clients = [np.repeat(np.arange(num_clients), row) for row in drawn]
        client_of = shuffled_by_label(
            labels, clients, seed=seed, purpose="partition/dirichlet-order"
        )
        _top_up(client_of, num_clients, self.min_samples, seed)
        return members(client_of, num_clients)


def _top_up(client_of: IntArray, num_clients: int, min_samples: int, seed: int) -> None:
    """Move samples to each client that has too few, in ascending order of clients, in place.

    Each gift comes from the client that has most at that time, which keeps `min_samples` itself:
    there are enough samples for all.
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
