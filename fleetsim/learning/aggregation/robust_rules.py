"""Robust aggregation: median, trimmed mean, Krum and geometric median of the updates of a round.

Coordinate-wise statistics (Yin, Chen, Ramchandran, Bartlett, "Byzantine-robust distributed
learning: towards optimal statistical rates", ICML 2018, there for gradients). Each coordinate of
the next model follows from the K values x_1 <= ... <= x_K of that coordinate alone:

* `median`: the middle one, or the mean of the two middle ones;
* `trimmed-mean`: the mean without the floor(beta K) smallest and the floor(beta K) largest values,
  beta in [0, 1/2). beta bounds the share of clients that send anything.

With a share of malicious clients below 1/2 (median) or beta (trimmed mean), no value of theirs
moves a coordinate beyond the values of the others.

`krum` (Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine learning with adversaries: Byzantine
tolerant gradient descent", NeurIPS 2017). Of n updates x_i, at most f of them arbitrary,
2 f + 2 < n. The score of an update is

    s(i) = sum over j -> i of |x_i - x_j|^2,

where j -> i are the n - f - 2 other updates that are closest to x_i. Krum takes the update of the
smallest score, of equal ones that of the smallest client number. Multi-Krum takes the mean of the
m updates of the smallest scores; m = 1 is Krum, m = n the mean.

`geometric-median` (Pillutla, Kakade, Harchaoui, "Robust aggregation for federated learning", IEEE
Transactions on Signal Processing, 2022; arXiv:1912.13445). The geometric median of updates x_k with
weights a_k, sum a_k = 1, minimises

    g(v) = sum_k a_k |v - x_k|.

The smoothed Weiszfeld algorithm starts from the weighted mean. Each iteration takes the mean with
weights that are smaller the further an update is from the present v:

    b_k = a_k / max(nu, |v - x_k|),      v <- sum_k b_k x_k / sum_k b_k.

nu > 0 avoids a division by zero where v meets an update; v then tends to a point whose g exceeds
the least one by at most nu / 2. The paper's server runs three iterations, because each is one
secure sum over the clients. Here the server sees the updates, so that it may run many. a_k are
those of the weighted mean: samples or ones, or the weights that a selector gives.

Distances of the last two are over the parameters alone: running statistics of a BatchNorm are in
other units. These take the mean of the chosen updates' values, or that of the last b_k.

Robust rules choose among the values x_k that the clients sent, instead of adding them up:

* of a parameter, x_k = w_k - w_k^0, the change of the model that was sent to client k. In a
  synchronous round all w_k^0 are the current model w, so that the rule's result plus w is the rule
  of the models themselves. A stale update counts by its change, like any other;
* of a buffer (running statistics of a BatchNorm), x_k is its value in w_k: a change of a variance,
  added to another variance, could make it negative.

Updates are in a fixed order (client, then dispatch) and arithmetic is float64, so that a result
does not depend on the order of arrival. Blocks of the model are processed at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Lt
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, IntArray, Parameters, Report
from fleetsim.counts import floor_product
from fleetsim.errors import DivergenceError, ScenarioError
from fleetsim.learning.aggregation.weighted_mean import (
    BLOCK_NUMBERS,
    ClientWeights,
    RuleKind,
    check_finite,
    check_shape,
    check_weights,
    delivered,
    weight_of,
)
from fleetsim.quoting import quoted
from fleetsim.schema.ranges import Gain


@dataclass(frozen=True, slots=True)
class Updates:
    """Delivered updates of K clients, in a fixed order."""

    base: Parameters
    """Current global model [P]."""
    reports: tuple[Report, ...]
    """[K]"""
    vectors: tuple[Parameters, ...]
    """Their finite models [P] each."""
    buffers: BoolArray
    """True where the model has no parameter [P]."""

    @classmethod
    def of(
        cls,
        base: Parameters,
        reports: Sequence[Report],
        buffers: BoolArray | None,
        *,
        least: int = 1,
    ) -> Updates:
        """Return the delivered updates among reports, at least `least` of them, checked."""
        arrived = delivered(reports)
        for report, vector in arrived:
            check_shape(report.client, vector, base)
            check_finite(report.client, vector)
        if len(arrived) < least:
            raise ValueError(f"{len(arrived)} updates to aggregate, at least {least} are needed")
        mask = np.zeros(base.shape, dtype=np.bool_) if buffers is None else buffers
        vectors = tuple(vector for _, vector in arrived)
        return cls(base, tuple(report for report, _ in arrived), vectors, mask)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield parts of the model and the values of all clients there, each [K, p]."""
        num_columns = max(1, min(BLOCK_NUMBERS // len(self.reports), self.base.size))
        for first in range(0, self.base.size, num_columns):
            part = slice(first, min(first + num_columns, self.base.size))
            yield part, self._values(part)

    def model(self, step: FloatArray) -> Parameters:
        """Return the model [P] of a rule's result [P]: w plus the result, in buffers the result."""
        with np.errstate(over="ignore"):  # refused below
            made: Parameters = np.where(self.buffers, step, self.base + step).astype(np.float32)
        if not np.isfinite(made).all():
            raise DivergenceError("the aggregated model leaves the range of float32 weights")
        return made

    def _values(self, part: slice) -> FloatArray:
        values = np.stack([vector[part] for vector in self.vectors]).astype(np.float64)
        trained = ~self.buffers[part]
        for row, report in zip(values, self.reports, strict=True):
            start = self.base if report.base is None else report.base
            row[trained] -= start[part][trained]
        return values


def refuse_weights(kind: str, reports: Sequence[Report]) -> None:
    """Refuse updates with weights or shares of their own, and parts that count for less."""
    place = f"server.aggregator.kind = {quoted(kind)}"
    for report in reports:
        if report.weight is not None:
            raise ScenarioError(
                f"{place} counts all updates the same and cannot use the weights that the selector"
                f" gives (client {report.client}: {report.weight:g}); use fedavg or"
                " geometric-median, or a selector without weights"
            )
        if report.weight_fraction != 1.0:
            raise ScenarioError(
                f"{place} counts all updates the same, and the part of client {report.client}"
                f" counts for {report.weight_fraction:g} of a whole one; set"
                " server.interruption.weight: samples, or use fedavg or geometric-median"
            )


class CoordinateKind(RuleKind):
    """Settings of an aggregator that takes a statistic of each coordinate."""

    sees_single_updates: ClassVar[bool] = True
    weights_parts: ClassVar[bool] = False

    @abstractmethod
    def statistic(self, ordered: FloatArray) -> FloatArray:
        """Return the statistic of each column of values in ascending order [K, p]."""

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the next model [P]."""
        updates = Updates.of(base, reports, buffers)
        refuse_weights(self.kind, updates.reports)
        step = np.empty(base.shape, dtype=np.float64)
        for part, values in updates.blocks():
            values.sort(axis=0)
            step[part] = self.statistic(values)
        return updates.model(step)


class MedianSettings(CoordinateKind):
    """Median of each coordinate (Yin et al. 2018)."""

    kind: Literal["median"] = "median"

    def statistic(self, ordered: FloatArray) -> FloatArray:
        """Return the median of each column of ascending values [K, p].

        >>> ordered = np.array([[1.0, 0.0], [2.0, 4.0], [9.0, 5.0], [9.0, 6.0]])
        >>> MedianSettings().statistic(ordered).tolist()
        [5.5, 4.5]
        """
        middle: FloatArray = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0
        return middle


class TrimmedMeanSettings(CoordinateKind):
    """Mean of each coordinate without its smallest and largest values (Yin et al. 2018)."""

    kind: Literal["trimmed-mean"] = "trimmed-mean"
    trimmed_fraction: Annotated[float, Ge(0), Lt(0.5), Field(examples=[0.1])]
    """Share beta of the updates that each coordinate leaves out at either end."""

    def statistic(self, ordered: FloatArray) -> FloatArray:
        """Return the mean of each column of ascending values [K, p] without its ends.

        >>> ordered = np.array([[1.0], [2.0], [6.0], [90.0]])
        >>> TrimmedMeanSettings(trimmed_fraction=0.25).statistic(ordered).tolist()
        [4.0]
        """
        num_left_out = floor_product(self.trimmed_fraction, len(ordered))
        kept = ordered[num_left_out : len(ordered) - num_left_out]
        # Adds row after row. Not the pairwise sum of a column, whose order is the processor's.
        mean: FloatArray = np.einsum("kp->p", kept) / len(kept)
        return mean


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


class GeometricMedianSettings(RuleKind):
    """Point of the least sum of distances to the updates (Pillutla et al. 2022)."""

    kind: Literal["geometric-median"] = "geometric-median"
    sees_single_updates: ClassVar[bool] = True
    weights: ClientWeights = "samples"
    """Weight of a client's distance: its number of samples, or the same for all clients."""
    smoothing: Gain = 1e-6
    """Distance nu below which an update has the same weight as at this distance."""
    iterations: Annotated[int, Field(ge=1, le=100_000, examples=[20])] = 3
    """Number of iterations of the smoothed Weiszfeld algorithm."""

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the next model [P]."""
        updates = Updates.of(base, reports, buffers)
        for report in updates.reports:
            if report.is_share:
                raise ScenarioError(
                    "server.aggregator.kind = 'geometric-median' divides weights by their sum and"
                    f" cannot use the shares that the selector gives (client {report.client}:"
                    f" {report.weight:g}); use fedavg, or a selector without shares"
                )
        given = [weight_of(report, self.weights) for report in updates.reports]
        check_weights(given, reports)
        weights = np.array(given, dtype=np.float64)
        weights /= weights.sum()
        middle = _mean(updates, weights)
        for _ in range(self.iterations):
            apart = np.maximum(self.smoothing, _distances(updates, middle))
            middle = _mean(updates, weights / apart)
        return updates.model(middle)


def _mean(updates: Updates, weights: FloatArray) -> FloatArray:
    """Return the weighted mean of the values of updates [P]."""
    mean = np.empty(updates.base.shape, dtype=np.float64)
    share = weights / weights.sum()
    for part, values in updates.blocks():
        mean[part] = np.einsum("k,kp->p", share, values)
    return mean


def _distances(updates: Updates, middle: FloatArray) -> FloatArray:
    """Return the distances of updates from a point [P], over the parameters alone [K]."""
    squares = np.zeros(len(updates.reports), dtype=np.float64)
    for part, values in updates.blocks():
        trained = ~updates.buffers[part]
        apart = values[:, trained] - middle[part][trained]
        squares += np.einsum("kp,kp->k", apart, apart)
    return np.sqrt(squares)
