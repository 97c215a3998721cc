"""Bases of aggregators: their settings, and the weighted mean of models, which is FedAvg.

    mean = sum_k a_k x_k / sum_k a_k,      a_k = c_k n_k ("samples") or c_k ("uniform")

where x_k is the model w_k that client k delivered, or its change w_k - w_k^0 of the model that was
sent to it. c_k is 1 unless the server weights an update by its completed share of the training
(`Report.weight_fraction`). The sums run over delivered reports alone (McMahan et al.,
"Communication-efficient learning of deep networks from decentralized data", AISTATS 2017).

A selector may choose clients with weights v_k (`Report.weight`), which replace n_k or 1:
a_k = c_k v_k. They are relative weights, or shares of the next model (`Report.is_share`), which are
used as they are: the sum is not divided, sum_k a_k x_k, and no share changes when other clients
fail to deliver.

Sums are float64 and in a fixed order (client, then dispatch). So they do not depend on the order of
arrival, not even in the last bit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import BoolArray, FloatArray, Parameters, Report, State
from fleetsim.errors import ScenarioError
from fleetsim.settings import Settings


class AggregatorKind(Settings):
    """Settings of one kind of aggregator."""

    kind: str
    sees_single_updates: ClassVar[bool] = False
    """True if the next model is no function of a weighted sum of the updates."""
    weights_parts: ClassVar[bool] = True
    """True if a part of a training can count for less than a whole one."""

    def needs_single_updates(self) -> bool:
        """Return `sees_single_updates`; a plug-in's is known once its object is made."""
        return self.sees_single_updates

    @property
    def least_updates(self) -> int:
        """Least number of updates of which it makes a model."""
        return 1


class RuleKind(AggregatorKind):
    """Settings of an aggregator without state, which compute its model."""

    def build(self, *, buffers: BoolArray | None = None) -> Stateless:
        """Return a new aggregator; `buffers` [P] are true where the model has no parameter."""
        return Stateless(self, buffers)

    @abstractmethod
    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the next model [P], a new array; the arguments are those of an aggregator."""


class Stateless:
    """Aggregator whose model follows from the updates alone."""

    def __init__(self, rule: RuleKind, buffers: BoolArray | None) -> None:
        self._rule = rule
        self._buffers = buffers

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P]."""
        return self._rule.next_model(base, reports, self._buffers)

    def state(self) -> State:
        """Return the empty state."""
        return {}

    def restore(self, state: State) -> None:
        """Restore the empty state."""


ClientWeights = Literal["samples", "uniform"]
"""Weight of a client: its number of samples, or the same for all clients."""
BLOCK_NUMBERS = 262_144
"""Numbers of all clients that are summed at a time, 2 MB: they stay in the processor's caches."""


LEAST_SUM, _LARGEST_SUM = 1e-200, 1e200
"""Range of the sum of weights: products with float32 numbers, 1e-45 to 1e39, are float64."""
_SUM_OF_SHARES = (1e-6, 1e6)
"""Range of the sum of shares, which scale the model itself."""


class FedAvgSettings(RuleKind):
    """Weighted mean of the delivered models (McMahan et al. 2017)."""

    kind: Literal["fedavg"] = "fedavg"
    weights: ClientWeights = "samples"
    """Weight of a client in the mean: its number of samples, or the same for all clients."""

    def next_model(
        self, base: Parameters, reports: Sequence[Report], buffers: BoolArray | None
    ) -> Parameters:
        """Return the mean of the delivered models [P], a new array without a share of `base`."""
        return mean_model(base, reports, self.weights)


Order = Callable[[Report], tuple[float, ...]]
_BY_CLIENT: Order = attrgetter("client", "dispatched_at_s")


class _Term(NamedTuple):
    client: int
    weight: float
    vector: Parameters
    start: Parameters
    """Model that was sent to the client [P]."""


def delivered(
    reports: Sequence[Report], order: Order = _BY_CLIENT
) -> list[tuple[Report, Parameters]]:
    """Return the reports that bring a model, and the models [P], in a fixed order; at least one."""
    pairs = [
        (report, report.vector)
        for report in reports
        if report.is_delivered and report.vector is not None
    ]
    if not pairs:
        raise ValueError(f"nothing to aggregate: none of {len(reports)} reports brings a model")
    return sorted(pairs, key=lambda pair: order(pair[0]))


def check_shape(client: int, vector: Parameters, base: Parameters) -> None:
    """Check that a client's model is of the size of the global one."""
    if vector.shape != base.shape:
        raise ValueError(f"client {client} sent {vector.shape} weights for a model of {base.shape}")


def mean_model(base: Parameters, reports: Sequence[Report], weights: ClientWeights) -> Parameters:
    """Return the `weighted_mean` in float32."""
    terms = _terms(base, reports, weights)
    return _mean(terms, np.float32, is_sum=are_shares(reports))


def weighted_mean(
    base: Parameters,
    reports: Sequence[Report],
    weights: ClientWeights,
    *,
    takes_shares: bool = True,
) -> FloatArray:
    """Return the mean of the delivered models [P], in float64; of `base` only the shape matters.

    `weights` are those of clients without one from the selector. Shares are not divided by their
    sum if `takes_shares`; else the result is always a mean.
    """
    terms = _terms(base, reports, weights)
    return _mean(terms, np.float64, is_sum=are_shares(reports) and takes_shares)


def mean_change(base: Parameters, reports: Sequence[Report], weights: ClientWeights) -> FloatArray:
    """Return the mean of the clients' changes [P], in float64.

    `base` [P] replaces a base that a report does not name.
    """
    terms = _terms(base, reports, weights)
    return _mean(terms, np.float64, is_sum=are_shares(reports), of_changes=True)


def weight_of(report: Report, weights: ClientWeights) -> float:
    """Return the weight a_k of an update."""
    plain = report.num_samples if weights == "samples" else 1
    return report.weight_fraction * (plain if report.weight is None else report.weight)


def are_shares(reports: Sequence[Report]) -> bool:
    """Return true if the delivered reports have shares, false if relative weights or none."""
    delivered = [report for report in reports if report.is_delivered]
    shares = [report.client for report in delivered if report.is_share]
    if shares and len(shares) < len(delivered):
        raise ValueError(
            f"client {shares[0]} was chosen with a share of the next model, others that are"
            " aggregated with it were not: a selector must give shares always or never"
        )
    return bool(shares)


def _terms(base: Parameters, reports: Sequence[Report], weights: ClientWeights) -> list[_Term]:
    terms = []
    for report, vector in delivered(reports):
        check_shape(report.client, vector, base)
        start = base if report.base is None else report.base
        terms.append(_Term(report.client, weight_of(report, weights), vector, start))
    check_weights([term.weight for term in terms], reports)
    return terms


def _mean(
    terms: Sequence[_Term], dtype: type[np.floating[Any]], *, is_sum: bool, of_changes: bool = False
) -> NDArray[Any]:
    """Return the mean [P] as numbers of a type, computed in float64, a block at a time."""
    result = np.empty(terms[0].vector.shape, dtype)
    weights = np.array([term.weight for term in terms], dtype=np.float64)
    total = weights.sum()
    num_columns = max(1, min(BLOCK_NUMBERS // len(terms), result.size))
    scratch = np.empty((len(terms) + 1) * num_columns, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # infinity minus infinity: reported by client below
        for first in range(0, result.size, num_columns):
            part = slice(first, first + num_columns)
            size = result[part].size
            mean, flat = scratch[:size], scratch[size : (len(terms) + 1) * size]
            np.concatenate([term.vector[part] for term in terms], out=flat)
            if of_changes:
                flat -= np.concatenate([term.start[part] for term in terms])
            # Adds client after client. Not a matrix product: its order may follow the threads.
            np.einsum("k,kp->p", weights, flat.reshape(len(terms), -1), out=mean)
            if not np.isfinite(mean).all():  # no sum of finite float32 leaves float64
                for term in terms:
                    check_finite(term.client, term.vector)
            if not is_sum:
                mean /= total
            result[part] = mean
    return result


def check_weights(weights: Sequence[float], reports: Sequence[Report]) -> None:
    """Check that weights of updates can be multiplied and summed without leaving float64."""
    with np.errstate(over="ignore"):  # refused below
        total = float(np.sum(np.array(weights, dtype=np.float64)))
    if total == 0.0:
        raise ValueError(
            f"nothing to aggregate: none of {len(reports)} reports brings a model with weight"
        )
    shares = any(report.is_share for report in reports)
    least, largest = _SUM_OF_SHARES if shares else (LEAST_SUM, _LARGEST_SUM)
    if not least <= total <= largest:
        noun = "shares" if shares else "weights"
        raise ScenarioError(
            f"server.selector: the {noun} of {len(weights)} updates that are aggregated have the"
            f" sum {total:g}, outside of {least:g} to {largest:g}; let the selector scale them"
        )


def check_finite(client: int, vector: Parameters) -> None:
    """Check that a client's model is finite."""
    num_broken = int((~np.isfinite(vector)).sum())
    if num_broken:
        raise ValueError(
            f"client {client} sent {num_broken} weights of {vector.size} that are not finite:"
            " its training diverged; lower the learning rate"
        )
