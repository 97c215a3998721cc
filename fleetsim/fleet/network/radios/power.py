"""Power of a busy radio by the rate of its transfer.

    P(r) = w + j_per_bit r - saved_w max(0, 1 - r / awake)

Without power saving this is a line. A cellular radio with discontinuous reception (DRX) sleeps
between packets: a time T after each packet, the inactivity timer of the network, it goes on in
short cycles and draws what it draws in the tail. Packets of S bits at a rate r are S / r apart, so
it is awake for min(1, r / awake) of the time, with awake = S / T: for T = 0.1 s, 117 kbit/s. A
radio whose link carries nothing (set-up, outage) is awake.

A radio sleeps between packets where something else than the air holds them up: `constant` channels,
whose rate the scenario states. In a cell the sender has packets waiting until the last one is
through, so that it never sleeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.direction import Direction
from fleetsim.units import BIT_PER_BYTE

PACKET_BIT: Final = 1460 * BIT_PER_BYTE
"""Payload of a packet: 1500 bytes of Ethernet less 40 of headers."""


@dataclass(frozen=True, slots=True, eq=False)
class RadioPower:
    """Power of n busy radios in one direction; all arrays [n]."""

    busy_w: FloatArray
    """Base power while awake."""
    j_per_bit: FloatArray
    """Energy per bit on top of that."""
    saved_w: FloatArray
    """What sleep between packets saves of the base power; 0: it never sleeps."""
    awake_bit_per_s: FloatArray
    """Rate from which on packets leave no time for sleep, > 0; without meaning where it never
    sleeps."""

    @classmethod
    def line(cls, busy_w: FloatArray, j_per_bit: FloatArray) -> RadioPower:
        """Radios that never sleep [n]."""
        return cls(busy_w, j_per_bit, np.zeros(busy_w.size), np.ones(busy_w.size))

    def take(self, rows: IntArray) -> RadioPower:
        """The radios with these indices."""
        return RadioPower(
            self.busy_w[rows], self.j_per_bit[rows], self.saved_w[rows], self.awake_bit_per_s[rows]
        )

    def at(self, rate_bit_per_s: FloatArray) -> FloatArray:
        """Watts at rates [n, m], shape kept."""
        power_w = self.busy_w[:, np.newaxis] + self.j_per_bit[:, np.newaxis] * rate_bit_per_s
        if self.saved_w.any():
            awake = rate_bit_per_s / self.awake_bit_per_s[:, np.newaxis]
            asleep = np.where(rate_bit_per_s > 0.0, np.maximum(1.0 - awake, 0.0), 0.0)
            power_w -= self.saved_w[:, np.newaxis] * asleep
        return np.asarray(power_w)

    def at_multiples(self, multiple: FloatArray) -> RadioPower:
        """The same power by rates that are divided by these multiples [n]."""
        return RadioPower(
            self.busy_w, self.j_per_bit * multiple, self.saved_w, self.awake_bit_per_s / multiple
        )


def power_of(radios: Sequence[RadioProfile], direction: Direction) -> RadioPower:
    """Power of radios [n] in one direction, asleep between packets where a profile says so."""
    is_down = direction == Direction.DOWN
    busy_w = np.array([radio.receive_w if is_down else radio.transmit_w for radio in radios])
    tail_w = np.array([radio.tail_w for radio in radios])
    inactivity_s = [radio.drx_inactivity_s for radio in radios]
    sleeps = np.array([after_s is not None for after_s in inactivity_s])
    return RadioPower(
        busy_w=busy_w,
        j_per_bit=np.array(
            [radio.receive_j_per_bit if is_down else radio.transmit_j_per_bit for radio in radios]
        ),
        saved_w=np.where(sleeps, np.maximum(busy_w - tail_w, 0.0), 0.0),
        awake_bit_per_s=np.array(
            [1.0 if after_s is None else PACKET_BIT / after_s for after_s in inactivity_s]
        ),
    )
