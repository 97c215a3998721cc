"""Connection set-up and TCP slow start, as caps on a transfer's rate over time.

A transfer begins with `handshake_round_trips` (TCP and TLS) and `request_round_trips`, during which
no payload moves. Then the sender's window W limits it to W per round-trip time T. In round j,

    W_j = min(W0 * 2^j, receive window),    cap_j = 8 * W_j / T  bit/s   during [j T, (j + 1) T)

so the transfer runs at min(cap_j, rate of the link). The window doubles with every round, because
each acknowledged segment adds one (RFC 5681, section 3.1; with byte counting, RFC 3465, delayed
acknowledgements do not slow it). Figures, sources and limits: docs/models/transport.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, model_validator

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.columns import Columns
from fleetsim.settings import Settings
from fleetsim.units import BIT_PER_BYTE

_GROWTH: Final = 2.0
"""Factor of the window from one round to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class RateCaps(Columns):
    """Caps on the rates of n transfers, piecewise constant over K steps."""

    offsets_s: FloatArray
    """Edges of the steps since the first moment of each transfer [n, K+1]; from 0 to inf, never
    falling. A step may be empty."""
    cap_bit_per_s: FloatArray
    """Highest rate in each step [n, K]; 0 during the set-up, inf: no limit."""


class TcpSettings(Settings):
    """Connection of TCP and TLS, and slow start."""

    kind: Literal["tcp"] = "tcp"
    handshake_round_trips: Annotated[float, Field(ge=0.0, le=20.0)] = 2.0
    """Round trips before the first request of a transfer: 2 for a new connection (TCP 1, RFC 9293;
    TLS 1.3 1, RFC 8446), 3 with TLS 1.2, 1 with QUIC, 0 if the connection is kept alive."""
    request_round_trips: Annotated[float, Field(ge=0.0, le=20.0)] = 1.0
    """Round trips of a request on its way up and the first byte down, or of the last byte up and
    its confirmation."""
    initial_window_segments: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Segments of the first round (RFC 6928). A kept connection begins with them again after a
    pause (RFC 5681, section 4.1), so that it saves the handshake alone."""
    segment_byte: Annotated[int, Field(ge=48, le=65_495)] = 1460
    """Payload of a segment: 1500 bytes of Ethernet less 40 of headers."""
    receive_window_byte: Annotated[int, Field(ge=1_024, le=1 << 30)] = 8_388_608
    """Most bytes in transit at any time, so the rate is at most this per round trip. From downloads
    over one connection on mmWave 5G: rate times round trip is 7.3 to 7.9 MiB in the middle half of
    47 tests (SIGCOMM21-5G/artifact@35aaf28, NW-Perf-Speedtest)."""

    @model_validator(mode="after")
    def _window_holds_the_first_round(self) -> TcpSettings:
        first_byte = self.initial_window_segments * self.segment_byte
        if first_byte > self.receive_window_byte:
            raise ValueError(
                f"receive_window_byte = {self.receive_window_byte} is less than the first window,"
                f" initial_window_segments * segment_byte = {first_byte}; raise it"
            )
        return self

    @property
    def initial_window_bit(self) -> float:
        """Window of the first round."""
        return float(self.initial_window_segments * self.segment_byte * BIT_PER_BYTE)

    @property
    def num_rounds(self) -> int:
        """Number of rounds whose window is smaller than the receiver's."""
        window_bit = float(self.receive_window_byte * BIT_PER_BYTE)
        rounds = 0
        while self.initial_window_bit * _GROWTH**rounds < window_bit:
            rounds += 1
        return rounds

    def rate_caps(self, rtt_s: FloatArray, more_round_trips: IntArray | None = None) -> RateCaps:
        """Return caps of transfers at round-trip times [n], after further exchanges [n], if any.

        All rows have the same number of steps: the set-up, the rounds of slow start and what
        follows. Where the round-trip time is 0 there is neither set-up nor cap.
        """
        rounds = self.num_rounds
        window_bit = np.minimum(
            self.initial_window_bit * _GROWTH ** np.arange(rounds + 1),
            self.receive_window_byte * BIT_PER_BYTE,
        )
        offsets_s = np.zeros((rtt_s.size, rounds + 3))
        setup_s = (self.handshake_round_trips + self.request_round_trips) * rtt_s
        if more_round_trips is not None:
            setup_s = setup_s + more_round_trips * rtt_s
        offsets_s[:, 1:-1] = setup_s[:, np.newaxis] + rtt_s[:, np.newaxis] * np.arange(rounds + 1)
        offsets_s[:, -1] = math.inf
        cap_bit_per_s = np.zeros((rtt_s.size, rounds + 2))
        with np.errstate(divide="ignore"):
            cap_bit_per_s[:, 1:] = window_bit / rtt_s[:, np.newaxis]
        return RateCaps(offsets_s, cap_bit_per_s)


class NoTransportSettings(Settings):
    """No set-up and no slow start: the rate of the link from the first moment, as papers assume."""

    kind: Literal["none"] = "none"

    def rate_caps(
        self, rtt_s: FloatArray, more_round_trips: IntArray | None = None
    ) -> RateCaps | None:
        """Return None: nothing is capped."""
        return None


TransportSettings = Annotated[TcpSettings | NoTransportSettings, Field(discriminator="kind")]


def capped_steps(
    edges_s: FloatArray, rates_bit_per_s: FloatArray, start_s: FloatArray, caps: RateCaps
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return rates of n transfers from `start_s` [n] on, before which nothing moves, under caps.

    The edges of the links [n, m+1] never fall, and the last may be inf. They are kept, those of the
    caps where the rate changes; empty steps are left out. The result is edges [n, k+1], rates
    between them and the step of the link that contains each [n, k]. Rows that need fewer than k
    steps repeat their last edge, with rate 0 between.
    """
    num_edges = edges_s.shape[1]
    cap_edges_s = start_s[:, np.newaxis] + caps.offsets_s
    cap_edges_s = np.minimum(np.maximum(cap_edges_s, edges_s[:, :1]), edges_s[:, -1:])
    merged_s = np.concatenate([edges_s, cap_edges_s], axis=1)
    order = merged_s.argsort(axis=1, kind="stable")
    row = np.arange(len(order))
    merged_s = merged_s[row[:, np.newaxis], order]
    # Of edges at the same moment the last one begins the step; the others begin empty steps.
    row, column = (merged_s[:, 1:] > merged_s[:, :-1]).nonzero()
    num_link_edges = (order < num_edges).cumsum(axis=1)[row, column]
    link_step = np.minimum(num_link_edges - 1, num_edges - 2)
    cap_step = column - num_link_edges
    cap = caps.cap_bit_per_s[row, np.minimum(cap_step, caps.cap_bit_per_s.shape[1] - 1)]
    cap[cap_step < 0] = 0.0
    rate = np.minimum(rates_bit_per_s[row, link_step], cap)

    is_kept = np.ones(row.size, dtype=np.bool_)
    for of_step in (row, rate, link_step):
        is_kept[1:] &= of_step[1:] == of_step[:-1]
    is_kept[1:] = ~is_kept[1:]
    row, column = row[is_kept], column[is_kept]
    num = np.bincount(row, minlength=len(order))
    place = np.arange(row.size) - (num.cumsum() - num)[row]
    shape = (len(order), int(num.max(initial=1)))
    kept_s, kept_rate = merged_s[:, -1:].repeat(shape[1] + 1, axis=1), np.zeros(shape)
    kept_step = np.full(shape, num_edges - 2)
    kept_s[row, place] = merged_s[row, column]
    kept_rate[row, place], kept_step[row, place] = rate[is_kept], link_step[is_kept]
    return kept_s, kept_rate, kept_step
