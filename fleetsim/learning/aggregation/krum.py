"""Krum and multi-Krum: the updates that are closest to others (Blanchard et al. 2017).

Of n updates x_i, at most f of them arbitrary, 2 f + 2 < n. The score of an update is

    s(i) = sum over j -> i of |x_i - x_j|^2,

where j -> i are the n - f - 2 other updates that are closest to x_i. Krum takes the update of the
smallest score, of equal ones that of the smallest client number. Multi-Krum takes the mean of the
m updates of the smallest scores; m = 1 is Krum, m = n the mean.

Source: Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine learning with adversaries: Byzantine
tolerant gradient descent", NeurIPS 2017.

Distances are over the parameters alone: running statistics of a BatchNorm are in other units.
They take the mean of the chosen updates' values.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Parameters, Report
from fleetsim.learning.aggregation.aggregator_kind import RuleKind
from fleetsim.learning.aggregation.robust_updates import Updates, refuse_weights


class KrumSettings(RuleKind):
    """Updates that are closest to others (Blanchard et al. 2017)."""

    kind: Literal["krum"] = "krum"
    sees_single_updates: ClassVar[bool] = True
    weights_parts: ClassVar[bool] = False
    num_byzantine: Annotated[int, Field(ge=0, le=100_000, examples=[0])]
    """Number f of updates of a round that may be arbitrary; a round needs 2 f + 3 updates."""
    num_chosen: Annotated[int, Field(ge=1, le=1_000_000, examples=[2])] = 1
    """Number m of updates whose mean is taken; 1: Krum, more: multi-Krum."""

    @property
    def least_updates(self) -> int:
        """Least number of updates of which it makes a model."""
        return max(2 * self.num_byzantine + 3, self.num_chosen)

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the next model [P]."""
        updates = Updates.of(base, reports, buffers, least=self.least_updates)
        refuse_weights(self.kind, updates.reports)
        score_of = scores(squared_distances(updates), self.num_byzantine)
        chosen: IntArray = np.sort(np.argsort(score_of, kind="stable")[: self.num_chosen])
        step = np.empty(base.shape, dtype=np.float64)
        for part, values in updates.blocks():
            step[part] = np.einsum("kp->p", values[chosen]) / chosen.size
        return updates.model(step)


def squared_distances(updates: Updates) -> FloatArray:
    """Return the squared distances between the parameters of updates [K, K]."""
    size = len(updates.reports)
    squares = np.zeros((size, size), dtype=np.float64)
    for part, values in updates.blocks():
        trained = values[:, ~updates.buffers[part]]
        for one in range(size - 1):
            # Differences, not |x|^2 - 2 x y + |y|^2: close updates would cancel.
            apart = trained[one + 1 :] - trained[one]
            squares[one, one + 1 :] += np.einsum("kp,kp->k", apart, apart)
    return squares + squares.T


def scores(squares: FloatArray, num_byzantine: int) -> FloatArray:
    """Return the score of each update [K] from squared distances [K, K].

    >>> at = np.array([0.0, 1.0, 3.0, 9.0])
    >>> scores(np.square(at[:, None] - at), 1).tolist()
    [1.0, 1.0, 4.0, 36.0]
    """
    size = len(squares)
    others = squares + np.diag(np.full(size, np.inf))
    closest = np.sort(others, axis=1)[:, : size - num_byzantine - 2]
    result: FloatArray = np.einsum("kj->k", closest)
    return result
