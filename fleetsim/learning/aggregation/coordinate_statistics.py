"""Coordinate-wise median and trimmed mean (Yin et al. 2018).

Each coordinate of the next model follows from the K values x_1 <= ... <= x_K of that coordinate
alone:

* `median`: the middle one, or the mean of the two middle ones;
* `trimmed-mean`: the mean without the floor(beta K) smallest and the floor(beta K) largest values,
  beta in [0, 1/2). beta bounds the share of clients that send anything.

Source: Yin, Chen, Ramchandran, Bartlett, "Byzantine-robust distributed learning: towards optimal
statistical rates", ICML 2018, there for gradients. With a share of malicious clients
below 1/2 (median) or beta (trimmed mean), no value of theirs moves a coordinate beyond the values
of the others.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Lt
from pydantic import Field

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report
from fleetsim.counts import floor_product
from fleetsim.learning.aggregation.aggregator_kind import RuleKind
from fleetsim.learning.aggregation.robust_updates import Updates, refuse_weights


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
