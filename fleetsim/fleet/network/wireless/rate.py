"""Rate of a link by its signal-to-noise ratio: by modulation and coding, or Shannon's.

    R = min(B r(snr / gap), cap * B, most)          bit/s, r by steps of modulation and coding
    R = min(B log2(1 + snr / gap), cap * B, most)   without them
    R = 0 where R < outage * B                      outage: even the slowest modulation fails

Without steps, a gap of 1, no cap and no outage is Shannon's capacity; docs/models/channel.md (Rate)
has sources. Steps are those of 5G NR up to 64QAM. A step carries e bit/s/Hz where the ratio is at
least t. Its e is bits per symbol times code rate, of 3GPP TS 38.214, table 5.1.3.1-1, which PDSCH
and PUSCH have in common. MCS 10 and 17 are left out: they carry what 9 and 16 do, at the next
higher modulation. Its t is where a tenth of the blocks have errors; docs/models/channel.md
(Modulation and coding) has source and comparisons.

    down    r(s)    = e of the highest step with t <= s
    up      r(s, x) = max of e min(x, s / t) over steps with s / t of a resource block or more

The uplink has the part x of the band, and s is the ratio over all of it: a phone puts its whole
power into as much of its part as serves it best.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.units import db_to_ratio

RESOURCE_BLOCK_HZ: Final = 180e3
"""Narrowest part of a band: 12 subcarriers of 15 kHz (3GPP TS 36.211)."""

_QPSK: Final = (120, 157, 193, 251, 308, 379, 449, 526, 602, 679)
_QAM16: Final = (378, 434, 490, 553, 616, 658)
_QAM64: Final = (466, 517, 567, 616, 666, 719, 772, 822, 873, 910, 948)
"""Code rates times 1024."""

CQI: Final = (
    (2 * 120, -4.7), (2 * 193, -2.3), (2 * 308, 0.2), (2 * 449, 2.4), (2 * 602, 4.3),
    (4 * 378, 5.9), (4 * 490, 8.1), (4 * 616, 10.3),
    (6 * 466, 11.7), (6 * 567, 14.1), (6 * 666, 16.3), (6 * 772, 18.7), (6 * 873, 21.0),
    (6 * 948, 22.7),
)  # fmt: skip
"""Bits per 1024 symbols of CQI 2 to 15 (3GPP TS 38.214, table 5.2.2.1-2), each that of a step, and
the least signal-to-noise ratio in dB."""

_ROUNDING: Final = 1e-12
"""Relative rounding of a ratio that was carried as Shannon's rate; it must not cost a step."""


@dataclass(frozen=True, slots=True, eq=False)
class Modulations:
    """Steps of modulation and coding; both arrays [K] rise, and e / t falls."""

    least_snr: FloatArray
    """Ratio t from which each step works."""
    bit_per_s_per_hz: FloatArray
    """Rate e of each step."""

    def down(self, snr: FloatArray) -> FloatArray:
        """Return rates per hertz at these ratios, shape kept; 0 below the lowest step."""
        return self._rate_of(self._num_steps(snr))

    def up(self, snr: FloatArray, part: FloatArray | float, least_part: float) -> FloatArray:
        """Return rates per hertz of the whole band over parts of it, in [0, 1], shape kept.

        The ratios are those over the whole band. A resource block is `least_part` of it, or 1;
        clients with less take turns on one.
        """
        used = np.maximum(part, least_part)
        num = self._num_steps(snr / used)
        # A step further, in less than this part.
        narrower = snr / np.append(self.least_snr, np.inf)[num]
        more = narrower * np.append(self.bit_per_s_per_hz, 0.0)[num]
        rate = np.maximum(used * self._rate_of(num), np.where(narrower >= least_part, more, 0.0))
        return np.asarray(rate * (part / used))

    def up_parts(
        self, snr: FloatArray, bit_per_s_per_hz: FloatArray, least_part: float
    ) -> FloatArray:
        """Return the least parts with which `up` gives these rates [n], at most that of part 1."""
        worth = self.bit_per_s_per_hz / self.least_snr
        requested = np.zeros(snr.size)
        np.divide(bit_per_s_per_hz, snr, out=requested, where=snr > 0.0)
        can_reach = np.searchsorted(-worth, -requested * (1.0 - _ROUNDING), side="right")
        num = np.minimum(can_reach, self._num_steps(snr / least_part))
        part = np.zeros(snr.size)
        np.divide(bit_per_s_per_hz, self._rate_of(num), out=part, where=num > 0)
        return np.minimum(part, 1.0)

    def _num_steps(self, snr: FloatArray) -> IntArray:
        """Number of steps that work at these ratios."""
        return np.searchsorted(self.least_snr, snr * (1.0 + _ROUNDING), side="right")

    def _rate_of(self, num_steps: IntArray) -> FloatArray:
        """Rate per hertz of the highest of the lowest steps."""
        rates: FloatArray = np.append(0.0, self.bit_per_s_per_hz)[num_steps]
        return rates


def nr_64qam(overhead_fraction: float, most_bit_per_s_per_hz: float, gap: float) -> Modulations:
    """Return the steps of NR, with this factor on all ratios that they need.

    Pilots and control take `overhead_fraction` of band and time; no rate after that exceeds the
    highest one.
    """
    coded = ((2, _QPSK), (4, _QAM16), (6, _QAM64))
    per_1024 = np.array([bits * rate for bits, rates in coded for rate in rates], dtype=np.float64)
    per_1024_of_cqi, db_of_cqi = np.array(CQI).T
    snr_db = np.interp(per_1024, per_1024_of_cqi, db_of_cqi)
    return Modulations(
        gap * np.array([db_to_ratio(float(db)) for db in snr_db]),
        np.minimum(per_1024 / 1024.0 * (1.0 - overhead_fraction), most_bit_per_s_per_hz),
    )


@dataclass(frozen=True, slots=True)
class Modem:
    """Rates in both directions by signal-to-noise ratio."""

    bandwidth_hz: tuple[float, float]
    """Bandwidth down and up."""
    gap: float = 1.0
    """SNR gap, a ratio >= 1."""
    cap_bit_per_s_per_hz: float = math.inf
    most_bit_per_s: tuple[float, float] = (math.inf, math.inf)
    """Highest rate at any bandwidth: down, up."""
    outage_bit_per_s_per_hz: float = 0.0
    modulations: tuple[Modulations, Modulations] | None = None
    """Steps of modulation and coding down and up, gap and cap included; None: Shannon's rate."""

    def rates_bit_per_s(self, direction: Direction, snr: FloatArray) -> FloatArray:
        """Return rates at these ratios, shape kept; 0 in an outage."""
        return self.limited(direction, self.band_bit_per_s(direction, snr))

    def limited(self, direction: Direction, band_bit_per_s: FloatArray) -> FloatArray:
        """Return rates of the band under the highest rate of the modem, shape kept."""
        most_bit_per_s = self.most_bit_per_s[ROW[direction]]
        if most_bit_per_s == math.inf:
            return band_bit_per_s
        return np.minimum(band_bit_per_s, most_bit_per_s)

    def band_bit_per_s(self, direction: Direction, snr: FloatArray) -> FloatArray:
        """Return rates that the band carries at these ratios, shape kept; 0 in an outage."""
        bandwidth_hz = self.bandwidth_hz[ROW[direction]]
        if self.modulations is None:
            rates_bit_per_s = self.best_bit_per_s(direction, snr)
        else:
            steps = self.modulations[ROW[direction]]
            least_part = min(1.0, RESOURCE_BLOCK_HZ / bandwidth_hz)
            is_down = direction == Direction.DOWN
            per_hz = steps.down(snr) if is_down else steps.up(snr, 1.0, least_part)
            rates_bit_per_s = np.where(np.isnan(snr), np.nan, per_hz * bandwidth_hz)
        if self.outage_bit_per_s_per_hz > 0.0:
            least_bit_per_s = self.outage_bit_per_s_per_hz * bandwidth_hz
            rates_bit_per_s[rates_bit_per_s < least_bit_per_s] = 0.0
        return rates_bit_per_s

    def signal_bit_per_s(self, direction: Direction, snr: FloatArray) -> FloatArray:
        """Return ratios as `Band` takes them, shape kept: as rates over the whole band."""
        if self.modulations is None:
            return self.band_bit_per_s(direction, snr)
        return shannon_bit_per_s(self.bandwidth_hz[ROW[direction]], snr)

    def best_bit_per_s(self, direction: Direction, snr: FloatArray) -> FloatArray:
        """Return rates that no modulation and coding exceeds, shape kept; never 0 but for 0."""
        bandwidth_hz = self.bandwidth_hz[ROW[direction]]
        if self.gap != 1.0:
            snr = snr / self.gap
        rates_bit_per_s = shannon_bit_per_s(bandwidth_hz, snr)
        if self.cap_bit_per_s_per_hz < math.inf:
            most_bit_per_s = self.cap_bit_per_s_per_hz * bandwidth_hz
            np.minimum(rates_bit_per_s, most_bit_per_s, out=rates_bit_per_s)
        return rates_bit_per_s


def shannon_bit_per_s(bandwidth_hz: float, snr: FloatArray) -> FloatArray:
    """Return B log2(1 + snr), the capacity of a band (Shannon, 1949), also exact for tiny snr."""
    return np.asarray(np.log1p(snr) * (bandwidth_hz / math.log(2.0)))
