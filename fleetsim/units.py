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

import math
from collections.abc import Mapping
from typing import Final

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

_SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
BIT_PER_S_OF: Final[Mapping[str, float]] = {
    **{f"{prefix}{unit}": factor for prefix, factor in _SI.items() for unit in ("bit/s", "bps")},
    "byte/s": 8.0,
    **{f"{prefix}B/s": 8.0 * factor for prefix, factor in _SI.items()},
    "KiB/s": 8.0 * (1 << 10),
    "MiB/s": 8.0 * (1 << 20),
}
"""Bits per second of one of each unit of rates, in the spellings that tables use."""
S_OF: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": S_PER_MINUTE,
    "h": S_PER_HOUR,
    "d": S_PER_DAY,
}
"""Seconds of one of each unit of time."""
BYTE_OF: Final[Mapping[str, int]] = {
    "byte": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
"""Bytes of one of each unit of memory."""
FRACTION_OF: Final[Mapping[str, float]] = {"fraction": 1.0, "percent": 0.01, "%": 0.01}
"""Fraction of one of each unit of shares."""
W_OF: Final[Mapping[str, float]] = {"W": 1.0, "kW": 1e3, "mW": 1e-3, "uW": 1e-6, "nW": 1e-9}
"""Watts of one of each unit of power."""
A_OF: Final[Mapping[str, float]] = {"A": 1.0, "mA": 1e-3, "uA": 1e-6, "nA": 1e-9}
"""Amperes of one of each unit of current."""
V_OF: Final[Mapping[str, float]] = {"V": 1.0, "kV": 1e3, "mV": 1e-3, "uV": 1e-6, "nV": 1e-9}
"""Volts of one of each unit of voltage."""
J_OF: Final[Mapping[str, float]] = {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "uWs": 1e-6}
"""Joules of one of each unit of energy; power rails count microwatt-seconds."""


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
