"""Uploads: their compression, size on the wire, and refusal of those that would ruin the model.

A client compresses its update delta = w_k - w, the change of its model. The server, which knows w,
adds the decoded update:

- `top-k`: the k = fraction P entries of largest magnitude, other entries become 0 (Aji and
  Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017). It loses at most
  the share 1 - k/P of |delta|^2. With error feedback a client keeps the unsent rest and adds it to
  its next update (Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018).
- `quantise-8bit`: the range of each bucket of consecutive entries, from its smallest to its largest
  entry, has 255 equal steps. Each entry is rounded to a step: at random to one of the two adjacent
  ones, so that it is correct on average, or to the nearest. Buckets (512 entries at 8 bits) and
  random rounding are those of QSGD (Alistarh et al., "QSGD: communication-efficient SGD via
  gradient quantization and encoding", NeurIPS 2017, 4 and 5), steps between the smallest and
  largest entry those of Suresh et al., "Distributed mean estimation with limited communication",
  ICML 2017.

An upload has 4 byte per value and 4 byte per index (top-k), or 1 byte per value and two 4-byte ends
per bucket (8-bit). Downloads are never compressed.

A server may also request only a share s of an update: the round(s k) largest of the k entries of
top-k, else round(s P) random entries. That takes s times the bytes, because the request holds the
seed that determines the entries. Unsent entries count as unchanged.

One diverged client is enough to ruin a mean. The server checks each update by itself:

* a model with a weight that is not finite is always refused;
* where a bound is set, a model too far from the one that was sent is refused:
  |w_k - w|_2 > max_update_norm
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import Parameters, State
from fleetsim.schema.key_conditions import TRAINING, by_key
from fleetsim.settings import Settings

_BLOCK = 16_384
"""Weights that are squared at a time: they stay in a core's second-level cache."""


def refusal_reasons(
    bases: Sequence[Parameters],
    vectors: Sequence[Parameters],
    *,
    max_update_norm: float | None = None,
) -> list[str | None]:
    """Return for each delivered model the reason to refuse it; None if it may be aggregated.

    `bases` [P] were sent to the clients and `vectors` [P] came back; a bound of None is none.

    >>> base = np.zeros(2, dtype=np.float32)
    >>> refusal_reasons([base], [np.array([3, 4], dtype=np.float32)], max_update_norm=4.5)
    ['its update has norm 5, more than 4.5']
    >>> sent = np.array([[3, np.nan], [3, 4]], dtype=np.float32)
    >>> refusal_reasons([base, base], sent)
    ['1 of its 2 weights are not finite', None]
    """
    with np.errstate(over="ignore"):  # squares of huge weights
        return [
            _refusal_reason(base, vector, max_update_norm)
            for base, vector in zip(bases, vectors, strict=True)
        ]


def _refusal_reason(
    base: Parameters, vector: Parameters, max_update_norm: float | None
) -> str | None:
    if vector.shape != base.shape:
        raise ValueError(f"{vector.shape} weights were sent for a model of {base.shape}")
    # The usual case, in one step: where a weight is not finite, the sum of squares is not either.
    if not math.isfinite(vector.dot(vector)):
        num_broken = vector.size - int(np.count_nonzero(np.isfinite(vector)))
        if num_broken:
            return f"{num_broken} of its {vector.size} weights are not finite"
    if max_update_norm is not None:
        norm = update_norm(base, vector)
        if norm > max_update_norm:
            return f"its update has norm {norm:.6g}, more than {max_update_norm:.6g}"
    return None


def update_norm(base: Parameters, vector: Parameters) -> float:
    """Return the Euclidean norm of `vector - base`, both [P], summed in float64."""
    squares = 0.0
    for start in range(0, base.size, _BLOCK):
        end = start + _BLOCK
        change = np.subtract(vector[start:end], base[start:end], dtype=np.float64)
        squares += float(np.square(change).sum())
    return math.sqrt(squares)


VALUE_BYTE = 4
"""One float32 on the wire."""
_INDEX_BYTE = 4
_LEVELS = 255
"""Steps between the smallest and the largest value of one byte."""


class CompressionKind(Settings):
    """Settings of one kind of compression, which compress updates."""

    kind: str

    @abstractmethod
    def num_byte(self, num_values: int) -> int:
        """Return the bytes on the wire of an update of so many float32 values."""

    def decoded(
        self, delta: Parameters, generator: np.random.Generator, fraction: float
    ) -> Parameters:
        """Return the update that the server decodes, a new array [P].

        The generator draws the entries of the share in (0, 1] that is sent, then the random
        rounding.
        """
        if fraction == 1.0:
            return self._rounded(delta, generator)
        num_sent = max(1, round(fraction * delta.size))
        sent = np.sort(generator.permutation(delta.size)[:num_sent])
        decoded = np.zeros_like(delta)
        decoded[sent] = self._rounded(delta[sent], generator)
        return decoded

    def _rounded(self, values: Parameters, generator: np.random.Generator) -> Parameters:
        """Return what the server decodes of values that are all sent, a new array."""
        return values.copy()


class UncompressedSettings(CompressionKind):
    """No compression of updates."""

    kind: Literal["none"] = "none"

    def num_byte(self, num_values: int) -> int:
        """Return the bytes of an update."""
        return VALUE_BYTE * num_values


class TopKSettings(CompressionKind):
    """Largest entries of an update, with their indices (Aji, Heafield 2017)."""

    acts_if = by_key(error_feedback=TRAINING)

    kind: Literal["top-k"] = "top-k"
    fraction: Annotated[float, Ge(1e-9), Le(0.5), Field(examples=[0.1])]
    """Share of the entries that is sent; above one half the indices take more than is saved."""
    error_feedback: bool = False
    """If true, a client adds the unsent rest to its next update (Stich et al. 2018). Every client
    that ever delivered then takes 4 byte per weight, in memory and in checkpoints."""

    def num_byte(self, num_values: int) -> int:
        """Return the bytes of an update.

        >>> TopKSettings(fraction=0.01).num_byte(1000)
        80
        """
        return (VALUE_BYTE + _INDEX_BYTE) * self._num_kept(num_values)

    def decoded(
        self, delta: Parameters, generator: np.random.Generator, fraction: float
    ) -> Parameters:
        """Return the largest entries by magnitude, else 0; of equal ones the first."""
        num_kept = max(1, round(fraction * self._num_kept(delta.size)))
        magnitude = np.abs(delta)
        smallest = np.partition(magnitude, delta.size - num_kept)[delta.size - num_kept]
        is_kept = magnitude > smallest
        ties = np.flatnonzero(magnitude == smallest)
        is_kept[ties[: num_kept - np.count_nonzero(is_kept)]] = True
        return np.where(is_kept, delta, np.float32(0.0))

    def _num_kept(self, num_values: int) -> int:
        return max(1, round(self.fraction * num_values))


class Quantise8BitSettings(CompressionKind):
    """Entries of an update rounded to one byte each (Alistarh et al. 2017)."""

    acts_if = by_key(rounding=TRAINING)

    kind: Literal["quantise-8bit"] = "quantise-8bit"
    rounding: Literal["stochastic", "nearest"] = "stochastic"
    """Random rounding, correct on average, or rounding to the nearest step."""
    bucket_size: Annotated[int, Ge(2), Le(1_000_000_000)] = 512
    """Consecutive entries with one range; smaller buckets are more exact and take more bytes."""

    def num_byte(self, num_values: int) -> int:
        """Return the bytes of an update.

        >>> Quantise8BitSettings(bucket_size=500).num_byte(1000)
        1016
        """
        return num_values + 2 * VALUE_BYTE * -(-num_values // self.bucket_size)

    def _rounded(self, values: Parameters, generator: np.random.Generator) -> Parameters:
        """Round every entry to one of 256 levels between the ends of its bucket.

        An entry is rounded down if it is less than 1 - draw steps above a level.
        """
        draws = generator.random(values.size) if self.rounding == "stochastic" else 0.5
        starts = np.arange(0, values.size, self.bucket_size)
        length = np.diff(np.append(starts, values.size))
        lowest = np.minimum.reduceat(values, starts).astype(np.float64)
        highest = np.maximum.reduceat(values, starts).astype(np.float64)
        low = np.repeat(lowest, length)
        step = np.repeat((highest - lowest) / _LEVELS, length)
        height = np.divide(values - low, step, out=np.zeros(values.size), where=step > 0.0)
        code = np.minimum(np.floor(height + draws), _LEVELS)
        return (low + code * step).astype(np.float32)


CompressionSettings = Annotated[
    UncompressedSettings | TopKSettings | Quantise8BitSettings, Field(discriminator="kind")
]
"""Settings of any compression, told apart by `kind`."""


class CompressedUplink:
    """Compression of the models that clients upload."""

    def __init__(self, settings: CompressionSettings, *, seed: int) -> None:
        """Start without unsent entries; `seed` is the run's root seed."""
        self._settings = settings
        self._seed = seed
        self._has_feedback = isinstance(settings, TopKSettings) and settings.error_feedback
        self._unsent: dict[int, Parameters] = {}

    def receive(
        self,
        client: int,
        base: Parameters,
        vector: Parameters,
        address: tuple[int, ...],
        fraction: float = 1.0,
    ) -> Parameters:
        """Return the model [P] that the server decodes from a delivered upload.

        A model that is not finite, or whose update leaves the range of float32, is returned
        unchanged: the server refuses it later.

        Base and vector are the model sent to the client and the one that it trained [P]. Draws come
        from (seed, "compress", client, address of the task). A share in (0, 1] of the update is
        sent.
        """
        if isinstance(self._settings, UncompressedSettings) and fraction == 1.0:
            return vector
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            delta = vector - base
            if client in self._unsent:
                delta += self._unsent[client]
        if not np.isfinite(delta).all():
            return vector
        generator = rng.stream(self._seed, "compress", client, *address)
        decoded = self._settings.decoded(delta, generator, fraction)
        if self._has_feedback:
            self._unsent[client] = delta - decoded
        return base + decoded

    def state(self) -> State:
        """Return the unsent entries, `clients` [M] and `unsent` [M, P]; empty without any."""
        if not self._unsent:
            return {}
        clients = sorted(self._unsent)
        return {
            "clients": np.array(clients, dtype=np.int64),
            "unsent": np.stack([self._unsent[client] for client in clients]),
        }

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        self._unsent = {}
        if state:
            unsent = state["unsent"].astype(np.float32)
            self._unsent = dict(zip(state["clients"].tolist(), unsent, strict=True))
