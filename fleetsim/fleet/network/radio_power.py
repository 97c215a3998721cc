"""Power of a busy radio by the rate of its transfer and by the power that it emits.

    P(r) = w + j_per_bit r - saved_w max(0, 1 - r / awake)

Without power saving this is a line. A cellular radio with discontinuous reception (DRX) sleeps
between packets on `constant` channels; docs/models/energy.md (Radios) explains when. A radio whose
link carries nothing (set-up, outage) is awake. While it emits P,

    P_dc(P) = P_max / efficiency * (P / P_max)^0.36
    P(r)    = base_w + P_dc(P) + (slope - P_dc(P_max) / full) * r

docs/models/energy.md (Transmit power) explains them. An amplifier of class B, whose efficiency
falls with the amplitude of its output, has the exponent 0.5 (Cripps, RF Power Amplifiers for
Wireless Communications, 2nd edition, 2006, chapter 3). The transmitter of a phone falls more
slowly: it switches between amplifiers, and some parts draw power at any level. 0.36 is a fit to the
modems of five phones at four levels (measurements/modem-transmit.csv): a tenth of the power costs
44 % of the watts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.columns import Columns
from fleetsim.fleet.devices.profile import AmplifierProfile, RadioProfile
from fleetsim.fleet.network.direction import Direction
from fleetsim.units import BIT_PER_BYTE, db_to_ratio, dbm_to_w

PACKET_BIT: Final = 1460 * BIT_PER_BYTE
"""Payload of a packet: 1500 bytes of Ethernet less 40 of headers."""
_EXPONENT = 0.36

MIN_TX_POWER_DBM = -40.0
"""Least output power that a phone is controlled to (3GPP TS 38.101-1, table 6.3.1-1, up to 20 MHz;
the same in TS 36.101)."""
MAX_CELLULAR_TX_POWER_DBM = 26.0
"""Phones of power class 2; class 3, the default, has 23 (3GPP TS 38.101-3, table 6.2B.1.1-1)."""
MAX_BASE_STATION_TX_POWER_DBM = 46.0
"""A macro cell of 10 MHz or more in 3GPP's simulations (TR 36.942; from memory, unchecked)."""


@dataclass(frozen=True, slots=True, eq=False)
class RadioPower(Columns):
    """Power of n busy radios in one direction; all arrays [n]."""

    busy_w: FloatArray
    """Base power while awake."""
    j_per_bit: FloatArray
    """Energy per bit on top of that."""
    saved_w: FloatArray
    """Base power that sleep between packets saves; 0: it never sleeps."""
    awake_bit_per_s: FloatArray
    """Rate above which packets leave no time for sleep, > 0; unused if it never sleeps."""

    @classmethod
    def line(cls, busy_w: FloatArray, j_per_bit: FloatArray) -> RadioPower:
        """Return radios that never sleep [n]."""
        return cls(busy_w, j_per_bit, np.zeros(busy_w.size), np.ones(busy_w.size))

    def at(self, rate_bit_per_s: FloatArray) -> FloatArray:
        """Return watts at rates [n, m], shape kept."""
        power_w = self.busy_w[:, np.newaxis] + self.j_per_bit[:, np.newaxis] * rate_bit_per_s
        if self.saved_w.any():
            awake = rate_bit_per_s / self.awake_bit_per_s[:, np.newaxis]
            asleep = np.where(rate_bit_per_s > 0.0, np.maximum(1.0 - awake, 0.0), 0.0)
            power_w -= self.saved_w[:, np.newaxis] * asleep
        return np.asarray(power_w)


def power_of(radios: Sequence[RadioProfile], direction: Direction) -> RadioPower:
    """Return the power of radios [n] in one direction, with sleep if a profile has it."""
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


def amplifier_w(amplifier: AmplifierProfile, tx_power_dbm: float) -> float:
    """Return watts that the amplifier draws while it emits a power."""
    below_max = db_to_ratio(tx_power_dbm - amplifier.max_dbm)
    return float(dbm_to_w(amplifier.max_dbm) / amplifier.efficiency * below_max**_EXPONENT)


def with_tx_power(radio: RadioProfile, tx_power_dbm: float) -> RadioProfile:
    """Return the radio while it emits this power, which it can; unchanged without an amplifier."""
    amplifier = radio.amplifier
    if amplifier is None:
        return radio
    in_slope_j_per_bit = amplifier_w(amplifier, amplifier.max_dbm) / amplifier.full_bit_per_s
    return replace(
        radio,
        transmit_w=radio.transmit_w + amplifier_w(amplifier, tx_power_dbm),
        # If the slope is less than the amplifier alone, all of it counts as the amplifier's share.
        transmit_j_per_bit=max(radio.transmit_j_per_bit - in_slope_j_per_bit, 0.0),
    )
