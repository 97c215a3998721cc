"""Updates of a round for robust aggregation, and the step that a robust rule makes of them.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report
from fleetsim.errors import DivergenceError, ScenarioError
from fleetsim.learning.aggregation.weighted_mean import (
    BLOCK_NUMBERS,
    check_finite,
    check_shape,
    delivered,
)
from fleetsim.quoting import quoted


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
