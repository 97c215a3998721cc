"""Power that a transmitter draws, by the power that it emits.

    P_dc(P) = P_max / efficiency * (P / P_max)^0.36
    P(r)    = base_w + P_dc(P) + (slope - P_dc(P_max) / full) * r

docs/models/energy.md (Transmit power) explains them. An amplifier of class B, whose efficiency
falls with the amplitude of its output, has the exponent 0.5 (Cripps, RF Power Amplifiers for
Wireless Communications, 2nd edition, 2006, chapter 3). The transmitter of a phone falls more
slowly: it switches between amplifiers, and some parts draw power at any level. 0.36 is a fit to the
modems of five phones at four levels (measurements/modem-transmit.csv): a tenth of the power costs
44 % of the watts.
"""

from dataclasses import replace

from fleetsim.fleet.devices.profile import AmplifierProfile, RadioProfile
from fleetsim.units import db_to_ratio, dbm_to_w

_EXPONENT = 0.36

MIN_TX_POWER_DBM = -40.0
"""Least output power that a phone is controlled to (3GPP TS 38.101-1, table 6.3.1-1, up to 20 MHz;
the same in TS 36.101)."""
MAX_CELLULAR_TX_POWER_DBM = 26.0
"""Phones of power class 2; class 3, the default, has 23 (3GPP TS 38.101-3, table 6.2B.1.1-1)."""
MAX_BASE_STATION_TX_POWER_DBM = 46.0
"""A macro cell of 10 MHz or more in 3GPP's simulations (TR 36.942; from memory, unchecked)."""


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
