"""Partitions by Dirichlet distributions: of a label over the clients, or of labels at a client.

With `dirichlet`, client k gets the share p_lk of the n_l samples of label l, p_l ~ Dir_N(alpha).

With `client-dirichlet` each client's mix of labels is drawn, and its size follows from all mixes.
The law, its sources and the remedy for mixes that have no sizes are in docs/data.md: with mixes
Q = [q_1 .. q_N] of the clients and d samples of each label, the sizes are the x >= 0 of least |x|_2
with Q x = d. On ten equal labels at zeta = 0.2 those of 70 clients had such sizes in each of 500
draws. A larger zeta helps less than more clients: at zeta = 10, 20 clients have none in 38 %.

The quadratic programme is a least-distance problem, min |x| subject to G x >= h, which Lawson and
Hanson ("Solving least squares problems", 1974, chapter 23) reduce to one non-negative least squares
problem: with E = [G^T; h^T], f = (0, .., 0, 1), u = argmin |E u - f| over u >= 0 and the residual
r = E u - f, the solution is x_j = -r_j / r_last, where -r_last = 1 / (1 + |x|^2); if r_last is 0,
nothing satisfies the constraints. In shares of all samples d and x add up to 1, so -r_last is at
least 1/2 or it is 0.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.errors import ScenarioError
from fleetsim.host.numerics import one_blas_thread
from fleetsim.learning.partition.partition_kind import (
    PartitionKind,
    first_with_enough,
    members,
    shuffled_by_label,
)
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


_FEASIBLE = 0.25
"""A number between 0 and 1/2, where -r_last can only lie by rounding."""
_RIDGE = 1e-6
"""Weight of |x|^2 against the miss |Q x - d|^2, both in shares of all samples."""
_ROUNDING = 1e-6
"""Error of a number of samples in floating point."""
_NNLS_STEPS = 30
"""Steps of the non-negative least squares per unknown; scipy's own limit is 3."""


class ClientDirichletSettings(PartitionKind):
    """Mixes of labels per client from a Dirichlet distribution, from which the sizes follow."""

    needs_each: ClassVar[tuple[str, str] | None] = ("min_samples", "samples each need")

    kind: Literal["client-dirichlet"] = "client-dirichlet"
    concentration: Annotated[float, Field(ge=1e-3, le=1e6)]
    """Zeta of GPFL: the total over all labels, which share it by their frequency. Large values give
    every client the mix of the whole set, small ones about one label each."""
    min_samples: Samples = 1
    """Smallest number of samples of a client; mixes are drawn again until every client has it."""
    when_infeasible: Literal["nearest", "refuse"] = "nearest"
    """Remedy if no sizes make the drawn mixes add up to the data set, as with few clients. nearest:
    take the nearest sizes (non-negative least squares) and assign the samples left over at random;
    refuse: refuse the scenario."""

    def split(
        self, *, labels: IntArray, owner: IntArray | None, num_clients: int, seed: int
    ) -> tuple[IntArray, ...]:
        """Return the samples of every client; together they are all samples."""
        label_sizes = np.unique(labels, return_counts=True)[1]

        def drawn(attempt: int) -> tuple[IntArray, list[IntArray]]:
            """Draw the sizes of the clients [N], and the clients of each label's samples."""
            counts, rests = _draw_counts(self, label_sizes, num_clients, seed, attempt)
            clients = [
                np.concatenate([np.repeat(np.arange(num_clients), row), rest])
                for row, rest in zip(counts, rests, strict=True)
            ]
            return np.bincount(np.concatenate(clients), minlength=num_clients), clients

        clients = first_with_enough(drawn, self.min_samples, "fleet.size")
        client_of = shuffled_by_label(
            labels, clients, seed=seed, purpose="partition/client-dirichlet-order"
        )
        return members(client_of, num_clients)


def _draw_counts(
    settings: ClientDirichletSettings,
    label_sizes: IntArray,
    num_clients: int,
    seed: int,
    attempt: int,
) -> tuple[IntArray, list[IntArray]]:
    """Return the counts of each label by client [labels, N], and clients of samples left over."""
    label_shares = label_sizes / label_sizes.sum()
    draws = stream(seed, "partition/client-dirichlet", attempt)
    mixes = draws.dirichlet(settings.concentration * label_shares, size=num_clients).T
    shares = least_sizes(mixes, label_shares)
    if shares is None:
        if settings.when_infeasible == "refuse":
            raise ScenarioError(
                f"task.partition.when_infeasible: no sizes make the mixes of labels that"
                f" {num_clients} clients drew add up to the data set; set it to nearest, raise"
                " fleet.size, or take another seed"
            )
        shares = nearest_sizes(mixes, label_shares)
    needed = mixes * shares
    # Only the nearest sizes need more of a label than there is; then all clients get less of it.
    needed *= np.minimum(1.0, label_shares / np.maximum(needed.sum(axis=1), label_shares / 2))[
        :, None
    ]
    counts = np.floor(needed * label_sizes.sum() + _ROUNDING).astype(np.int64)
    num_left = label_sizes - counts.sum(axis=1)
    return counts, [draws.integers(num_clients, size=left) for left in num_left]


def least_sizes(mixes: FloatArray, label_shares: FloatArray) -> FloatArray | None:
    """Return the x of least |x| with mixes @ x = label_shares and x >= 0; None if there is none.

    Mixes are shares of the labels at each client [labels, N], `label_shares` those in the whole set
    [labels]; columns add up to 1.

    >>> least_sizes(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]]), np.array([0.5, 0.5])).round(3)
    array([0.333, 0.333, 0.333])
    >>> least_sizes(np.array([[1.0, 0.9], [0.0, 0.1]]), np.array([0.5, 0.5])) is None
    True
    """
    num_clients = mixes.shape[1]
    above = np.vstack([mixes.T, label_shares])
    not_negative = np.vstack([np.eye(num_clients), np.zeros(num_clients)])
    matrix = np.hstack([above, -above, not_negative])
    target = np.zeros(num_clients + 1)
    target[-1] = 1.0
    multipliers = _non_negative(matrix, target)
    residual = matrix @ multipliers - target
    if -residual[-1] < _FEASIBLE:
        return None
    sizes: FloatArray = np.maximum(-residual[:-1] / residual[-1], 0.0)
    return sizes


def nearest_sizes(mixes: FloatArray, label_shares: FloatArray) -> FloatArray:
    """Return the x >= 0 of least |mixes @ x - label_shares|^2 + ridge |x|^2; see `least_sizes`."""
    num_clients = mixes.shape[1]
    matrix = np.vstack([mixes, np.sqrt(_RIDGE) * np.eye(num_clients)])
    target = np.concatenate([label_shares, np.zeros(num_clients)])
    return _non_negative(matrix, target)


def _non_negative(matrix: FloatArray, target: FloatArray) -> FloatArray:
    """Return the x >= 0 of least |matrix @ x - target|."""
    # Half a second to import, and hardly any run needs it.
    from scipy.optimize import nnls  # noqa: PLC0415

    # SciPy brings a BLAS of its own, which is loaded by this import.
    with one_blas_thread():
        solution, _ = nnls(matrix, target, maxiter=_NNLS_STEPS * matrix.shape[1])
    return np.asarray(solution)
