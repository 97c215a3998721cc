"""Privacy of clients: clipped updates with noise (DP-FedAvg), epsilon, and secure aggregation.

Differential privacy. In a round in which the clients K delivered, the server makes of their changes
x_k = w_k - w_k^0

    Delta = (1 / C) (sum over K of c_k x_k min(1, S / |x_k|)  +  N(0, (z S)^2 I)),

with S = `clip_norm`, z = `noise_multiplier`, C the cohort of the scenario and c_k <= 1 the
completed share of the training, where that counts. One client changes the sum by at most S,
so that the sum with its noise is a Gaussian mechanism of noise multiplier z. The divisor is fixed:
one that follows the number of answers would not have a bounded sensitivity. The aggregator then
takes Delta for the change of a single client: `fedavg` adds it, a server optimizer takes its step
along it, and neither touches data again.

Source: McMahan, Ramage, Talwar, Zhang, "Learning differentially private recurrent language models",
ICLR 2018, algorithm 1 with the fixed-denominator estimator of section 2.3, all weights 1. The noise
is drawn at the address (seed, "privacy noise", number of the aggregation).

The accountant adds up the Renyi divergences of many orders of these mechanisms over the rounds and
converts them to (epsilon, delta) by `dp-accounting` (Google, extra `fleetsim[privacy]`), whose
bound is tighter than the conversion of Mironov, "Renyi differential privacy", CSF 2017. Neighbours
differ by one client that is there or not. With `sampling: poisson` a client takes part in a round
with the chance m / E of being one of the m selected of E eligible ones, each client by a draw of
its own (Mironov, Talwar, Zhang, "Renyi differential privacy of the sampled Gaussian mechanism",
2019). With `sampling: none` it always does.

Costs and failures of secure aggregation, SecAgg and SecAgg+. The server learns the sum of the
cohort's updates and no single one. n clients are vertices of a graph in which each has k
neighbours: all others (SecAgg), or k of a random Harary graph (SecAgg+: the clients in random order
on a ring, each a neighbour of the k/2 before and after it). A client

    up    2 public keys                              2 a_K
    down  those of its neighbours                    2 k a_K
    up    2 encrypted shares for each neighbour      2 k a_S
    down  the shares that neighbours made for it     2 k a_S
    up    its masked vector of m entries             m B,   B = ceil(log2(n (2^b - 1) + 1)) bit
    up    one share for each neighbour and itself    (k + 1) a_S

so that it moves 2 (k + 1) a_K + (5 k + 1) a_S + m B in all. With k = n - 1 that is the
2 n a_K + (5 n - 4) a_S + m B of Bonawitz et al., section 7.1. Values of b bit need B bit each, so
that a sum of n does not overflow; a further entry sums up the weights of the mean.

The server removes the masks if, of the neighbours of each client of the cohort, at least
t = floor(f k) + 1 delivered (SecAgg: t = floor(f n) + 1 of all n). Else the round fails.

Sources: Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning",
CCS 2017; Bell, Bonawitz, Gascon, Lepoint, Raykova, "Secure single-server aggregation with
(poly)logarithmic overhead", CCS 2020 (semi-honest).
"""

import importlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    Aggregator,
    BoolArray,
    FloatArray,
    IntArray,
    Outcome,
    Parameters,
    Purpose,
    Report,
    State,
)
from fleetsim.contracts.recording import joined, part_of
from fleetsim.counts import floor_product
from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.uploads import update_norm
from fleetsim.learning.aggregation.weighted_mean import check_finite, delivered
from fleetsim.schema.ranges import FailureChance, PartFraction
from fleetsim.settings import Settings
from fleetsim.units import BIT_PER_BYTE

_INNER = "aggregator"


class CentralPrivacySettings(Settings):
    """Privacy of clients towards everybody but the server, which adds the noise."""

    kind: Literal["central"] = "central"
    clip_norm: Annotated[float, Field(ge=1e-9, le=1e9, examples=[1.0])]
    """Euclidean norm S to which each client's update is clipped."""
    noise_multiplier: Annotated[float, Field(ge=1e-3, le=1e4, examples=[1.0])]
    """Standard deviation z of the noise of the sum, in units of the clip norm."""
    delta: Annotated[FailureChance, Field(examples=[1e-5])]
    """Chance delta with which the bound epsilon may be exceeded; less than 1 over the number of
    clients."""
    sampling: Literal["poisson", "none"] = "poisson"
    """Assumption of the accountant: each eligible client takes part by a draw of its own, or
    nothing is assumed and every round counts for every client."""


class PrivateAggregator:
    """Aggregator that shows another one a noisy sum of clipped updates."""

    def __init__(
        self,
        settings: CentralPrivacySettings,
        inner: Aggregator,
        *,
        seed: int,
        cohort: int,
        buffers: BoolArray | None = None,
    ) -> None:
        """Build it; `buffers` [P] are true where the model has no parameter."""
        if buffers is not None and buffers.any():
            raise ScenarioError(
                "server.privacy: the model keeps running statistics of its clients' samples"
                f" ({int(buffers.sum())} numbers of BatchNorm layers), which noise would make"
                " meaningless; choose a model without, such as norm: group"
            )
        self._settings = settings
        self._inner = inner
        self._seed = seed
        self._cohort = cohort
        self._num_aggregations = 0

    def aggregate(self, base: Parameters, reports: Sequence[Report]) -> Parameters:
        """Return the next model [P]."""
        total = np.zeros(base.shape, dtype=np.float64)
        for report, vector in delivered(reports):
            total += self._clipped(base, report, vector)
        scale = self._settings.noise_multiplier * self._settings.clip_norm
        draws = rng.stream(self._seed, "privacy noise", self._num_aggregations)
        total += scale * draws.standard_normal(base.size)
        vector = (base + total / self._cohort).astype(np.float32)
        noisy_sum = Report(
            0, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 0.0, num_samples=1, vector=vector, base=base
        )
        model = self._inner.aggregate(base, [noisy_sum])
        self._num_aggregations += 1
        return model

    def _clipped(self, base: Parameters, report: Report, vector: Parameters) -> FloatArray:
        """Return the clipped change of an update [P]."""
        if report.weight is not None:
            raise ScenarioError(
                "server.privacy bounds the share of each client and cannot use the weights that the"
                f" selector gives (client {report.client}: {report.weight:g}); choose a selector"
                " without weights"
            )
        check_finite(report.client, vector)
        start = base if report.base is None else report.base
        norm = update_norm(start, vector)
        factor = report.weight_fraction
        if norm > self._settings.clip_norm:
            factor *= self._settings.clip_norm / norm
        change: FloatArray = np.subtract(vector, start, dtype=np.float64)
        change *= factor
        return change

    def state(self) -> State:
        """Return the number of aggregations, and the state of the other aggregator."""
        inner = joined({_INNER: self._inner.state()})
        return {"num_aggregations": np.array(self._num_aggregations), **inner}

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self._num_aggregations = int(state["num_aggregations"])
        self._inner.restore(part_of(state, _INNER))


ORDERS = (*range(2, 65), 80, 96, 128, 192, 256)
"""Orders of the divergences. Whole ones are sums of a few terms; those between take a series that
does not always converge, and would make epsilon smaller by a few percent where it is large."""


class RdpAccountant:
    """Privacy that a run has spent, by Renyi divergences."""

    def __init__(self, settings: CentralPrivacySettings) -> None:
        self._settings = settings
        try:
            self._events: Any = importlib.import_module("dp_accounting")
            rdp: Any = importlib.import_module("dp_accounting.rdp")
        except ModuleNotFoundError as missing:
            raise ScenarioError(
                f"server.privacy needs {missing.name}, which counts epsilon;"
                " pip install 'fleetsim[privacy]'"
            ) from missing
        self._spent = rdp.RdpAccountant(orders=ORDERS)
        self._chances: list[float] = []
        """Chance of a client to take part in each aggregation so far."""

    @property
    def epsilon(self) -> float:
        """Bound epsilon of all aggregations so far, at the delta of the settings."""
        if not self._chances:
            return 0.0
        return float(self._spent.get_epsilon(self._settings.delta))

    def spend(self, num_selected: int, num_eligible: int) -> None:
        """Count an aggregation in which so many of the eligible clients were selected."""
        chance = 1.0
        if self._settings.sampling == "poisson":
            chance = min(1.0, num_selected / num_eligible)
        self._count(chance)

    def _count(self, chance: float) -> None:
        event = self._events.GaussianDpEvent(self._settings.noise_multiplier)
        if chance < 1.0:
            event = self._events.PoissonSampledDpEvent(chance, event)
        self._spent.compose(event)
        self._chances.append(chance)

    def state(self) -> State:
        """Return the chances of all aggregations."""
        return {"chances": np.array(self._chances, dtype=np.float64)}

    def restore(self, state: State) -> None:
        """Restore what `state` returned, into an accountant that has counted nothing."""
        for chance in state["chances"].tolist():
            self._count(chance)


Length = Annotated[int, Field(ge=1, le=10_000)]


class SecAggSettings(Settings):
    """Masks between all pairs of a cohort (Bonawitz et al. 2017)."""

    kind: Literal["secagg"]
    threshold_fraction: PartFraction = 0.5
    """More than this share f of a client's neighbours must deliver, or the round fails."""
    value_bit: Annotated[int, Field(ge=1, le=32)] = 16
    """Bits b of a quantised weight of one client."""
    key_byte: Length = 32
    """Bytes a_K of a public key."""
    share_byte: Length = 32
    """Bytes a_S of an encrypted share of a secret."""

    def num_neighbours(self, cohort: int) -> int:
        """Return the number k of neighbours of each client of a cohort."""
        return cohort - 1


class SecAggPlusSettings(SecAggSettings):
    """Masks between neighbours in a random graph (Bell et al. 2020)."""

    kind: Literal["secagg-plus"]  # type: ignore[assignment]
    neighbours: Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2, examples=[64])]
    """Number k of neighbours of each client, even; at most all others. Of `secagg-plus` alone."""

    def num_neighbours(self, cohort: int) -> int:
        """Return the number k of neighbours of each client of a cohort."""
        return min(self.neighbours, cohort - 1)


SecureAggregationSettings = Annotated[
    SecAggSettings | SecAggPlusSettings, Field(discriminator="kind")
]


class SecureAggregation:
    """Bytes and failures of the protocol for one model."""

    download_round_trips = 2
    """Exchanges before the training: keys, and shares."""
    upload_round_trips = 1
    """Exchange after the upload of the vector: unmasking."""

    def __init__(self, settings: SecAggSettings, *, num_values: int, seed: int) -> None:
        self._settings = settings
        self._num_values = num_values
        self._seed = seed

    def value_bit(self, cohort: int) -> int:
        """Return the bits B of an entry of a masked vector.

        >>> model = SecureAggregation(SecAggSettings(kind="secagg"), num_values=9, seed=1)
        >>> model.value_bit(1), model.value_bit(2), model.value_bit(1024)
        (16, 17, 26)
        """
        return int(cohort * (2**self._settings.value_bit - 1)).bit_length()

    def download_byte(self, cohort: int) -> int:
        """Return the bytes that a client of a cohort receives beside the model."""
        k = self._settings.num_neighbours(cohort)
        return 2 * k * (self._settings.key_byte + self._settings.share_byte)

    def upload_byte(self, cohort: int) -> int:
        """Return all bytes that a client of a cohort sends, with its masked vector."""
        k = self._settings.num_neighbours(cohort)
        vector_bit = (self._num_values + 1) * self.value_bit(cohort)
        return (
            2 * self._settings.key_byte
            + (3 * k + 1) * self._settings.share_byte
            + -(-vector_bit // BIT_PER_BYTE)
        )

    def is_unmasked(self, clients: Sequence[int], delivered: Sequence[int], round_: int) -> bool:
        """Return whether the server can remove the masks of a round.

        The cohort `clients` is in the order of the selection; the round determines the graph.
        """
        size = len(clients)
        arrived = np.isin(np.asarray(clients), np.asarray(delivered, dtype=np.int64))
        k = self._settings.num_neighbours(size)
        fraction = self._settings.threshold_fraction
        if k == size - 1:
            return bool(arrived.sum() >= floor_product(fraction, size) + 1)
        order = rng.stream(self._seed, "secure aggregation", round_).permutation(size)
        alive = num_alive_neighbours(arrived[order], k)
        return bool((alive >= floor_product(fraction, k) + 1).all())


def num_alive_neighbours(is_alive: BoolArray, k: int) -> IntArray:
    """Return for each client on a ring [n] how many of its k neighbours are alive [n].

    >>> num_alive_neighbours(np.array([True, True, False, False, True]), 2).tolist()
    [2, 1, 1, 1, 1]
    """
    alive = is_alive.astype(np.int64)
    steps = range(1, k // 2 + 1)
    result: IntArray = sum(
        (np.roll(alive, step) + np.roll(alive, -step) for step in steps), np.zeros_like(alive)
    )
    return result
