"""Rate of a link by its signal-to-noise ratio: by modulation and coding, or Shannon's.

    R = min(B r(snr / gap), cap * B, most)          bit/s, r by the steps of `modulation`
    R = min(B log2(1 + snr / gap), cap * B, most)   without them
    R = 0 where R < outage * B                      outage: even the slowest modulation fails

Without steps, a gap of 1, no cap and no outage is Shannon's capacity; docs/models/channel.md (Rate)
has sources.
"""

import math
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.wireless.modulation import RESOURCE_BLOCK_HZ, Modulations


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
