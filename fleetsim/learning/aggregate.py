"""How the models that clients delivered become the next global model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleetsim.contracts import Aggregator, Parameters, Report, State
from fleetsim.learning.settings import AggregatorSettings, FedAvgSettings


class FedAvg:
    """Weighted mean of the delivered models: w = sum_k a_k w_k / sum_k a_k.

    a_k is n_k ("samples") or 1 ("uniform"); the sums run over delivered reports alone. McMahan et
    al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.

    The sum is taken in float64 and in an order of its own (client, then dispatch), so that it does
    not depend on who answered first, not even in the last bit.
    """

    def __init__(self, settings: FedAvgSettings) -> None:
        self._is_weighted = settings.weights == "samples"

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Mean of the delivered models [P], a new array; the old model has no share in it.

        Reports that were not delivered or carry no vector are passed over.

        Raises:
            ValueError: nothing was delivered, nobody has a sample, or a vector has another shape
                than the global model or is not finite.
        """
        ordered = sorted(reports, key=lambda report: (report.client, report.dispatched_at_s))
        total = np.zeros(base.shape, dtype=np.float64)
        total_weight = 0
        for report in ordered:
            if not report.is_delivered or report.vector is None:
                continue
            _check(report.client, report.vector, base)
            weight = report.num_samples if self._is_weighted else 1
            total += weight * report.vector.astype(np.float64)
            total_weight += weight
        if total_weight == 0:
            raise ValueError(
                f"nothing to aggregate: none of {len(reports)} reports brings a model with weight"
            )
        return (total / total_weight).astype(np.float32)

    def state(self) -> State:
        """Nothing: every mean stands for itself."""
        return {}

    def restore(self, state: State) -> None:
        """Take back nothing."""


def _check(client: int, vector: Parameters, base: Parameters) -> None:
    if vector.shape != base.shape:
        raise ValueError(f"client {client} sent {vector.shape} weights for a model of {base.shape}")
    if not np.isfinite(vector).all():
        num_broken = int((~np.isfinite(vector)).sum())
        raise ValueError(
            f"client {client} sent {num_broken} weights of {vector.size} that are not finite:"
            " its training diverged; lower the learning rate"
        )


def build_aggregator(settings: AggregatorSettings) -> Aggregator:
    """The aggregator that a scenario asks for."""
    return FedAvg(settings)
