"""Unit conversions. Values inside fleetsim are SI; other units occur in YAML and tables only.

>>> round(dbm_to_w(20.0), 12)
0.1
>>> ratio_to_db(100.0)
20.0
>>> battery_j(5000.0, 3.85)
69300.0
>>> j_per_bit(1000.0)
1e-06
"""

from __future__ import annotations

import math

BIT_PER_BYTE = 8
BYTE_PER_MIB = 1 << 20
BYTE_PER_GIB = 1 << 30
S_PER_MINUTE = 60.0
S_PER_HOUR = 3600.0
S_PER_DAY = 86400.0
J_PER_KWH = 3.6e6
MS_PER_S = 1000
BIT_PER_KBIT = 1e3
BIT_PER_MBIT = 1e6
FLOP_PER_GFLOP = 1e9
PARAMETERS_PER_MPARAM = 1e6


def db_to_ratio(value_db: float) -> float:
    """Return the power ratio of a level in dB."""
    return float(10.0 ** (value_db / 10.0))


def ratio_to_db(ratio: float) -> float:
    """Return the level in dB of a power ratio > 0."""
    return 10.0 * math.log10(ratio)


def dbm_to_w(value_dbm: float) -> float:
    """Return the watts of a power level in dBm (0 dBm is 1 mW)."""
    return 1e-3 * db_to_ratio(value_dbm)


def battery_j(capacity_mah: float, voltage_v: float) -> float:
    """Return the joules in a battery of the given charge (mAh) and nominal voltage."""
    return capacity_mah * 1e-3 * S_PER_HOUR * voltage_v


def j_per_bit(power_mw_per_mbit_per_s: float) -> float:
    """Return the joules per bit of a radio whose power grows by so many mW per Mbit/s."""
    return power_mw_per_mbit_per_s / 1e9
