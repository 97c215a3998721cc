"""Parts of a cell's band: the rates that they carry, and their division among clients.

A cell gives each of its clients a part x of its band B (OFDMA resource blocks). With R the rate
that a client has over the whole band,

    down    r(x) = x R
    up      r(x) = min(x B log2(1 + s / x), c x B),  R = B log2(1 + s)

With steps of modulation and coding both follow from these (`wireless.rate`). Below
x0 = 180 kHz / B clients take turns on a resource block: r(x) = (x / x0) r(x0). The division
is max-min fair in x; docs/models/channel.md (A band) has the reasons. Schedulers that serve clients
in turn or are proportionally fair give it in the long run (Kushner & Whiting, "Convergence of
proportional-fair sharing algorithms", 2004; from memory).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.wireless.rate import RESOURCE_BLOCK_HZ, Modulations

_MOST_STEPS: Final = 100
_TOLERANCE: Final = 1e-9
"""Relative step above which Newton's iteration has not converged."""


@dataclass(frozen=True, slots=True)
class Band:
    """The band of every cell in one direction."""

    bandwidth_hz: float
    is_up: bool
    """True for the uplink, where a client puts all its power into its own part."""
    most_bit_per_s_per_hz: float = math.inf
    """Rate of the fastest modulation and coding."""
    modulations: Modulations | None = None
    """Steps of modulation and coding; None: Shannon's rate. With them the rate over the whole band
    is that of Shannon in both methods, which stands for the signal."""

    def rates_bit_per_s(self, whole_bit_per_s: FloatArray, part: FloatArray) -> FloatArray:
        """Return rates over parts of the band, in [0, 1], of clients with these over all of it [n].

        The latter are at most the rate of the fastest modulation and coding.
        """
        if self.modulations is not None:
            snr = self._snr(whole_bit_per_s)
            if self.is_up:
                return self.bandwidth_hz * self.modulations.up(snr, part, self._least_part)
            return self.bandwidth_hz * (self.modulations.down(snr) * part)
        if not self.is_up:
            return np.asarray(whole_bit_per_s * part)
        snr = self._snr(whole_bit_per_s)
        per_hz = np.log1p(snr / np.maximum(part, self._least_part)) / math.log(2.0)
        rate = part * self.bandwidth_hz * np.minimum(per_hz, self.most_bit_per_s_per_hz)
        # Over the whole band a client has exactly its rate.
        return np.where(part == 1.0, whole_bit_per_s, rate)

    def parts(self, whole_bit_per_s: FloatArray, rate_bit_per_s: FloatArray) -> FloatArray:
        """Return the least parts of the band that carry rates [n]: inverse of `rates_bit_per_s`."""
        if self.modulations is not None:
            snr, per_hz = self._snr(whole_bit_per_s), rate_bit_per_s / self.bandwidth_hz
            if self.is_up:
                return self.modulations.up_parts(snr, per_hz, self._least_part)
            whole_bit_per_s = self.bandwidth_hz * self.modulations.down(snr)
        part = np.zeros(whole_bit_per_s.size)
        np.divide(rate_bit_per_s, whole_bit_per_s, out=part, where=rate_bit_per_s > 0.0)
        if not self.is_up:
            return part
        rows = np.flatnonzero((part > 0.0) & (part < 1.0))
        if rows.size:
            part[rows] = self._narrow_parts(whole_bit_per_s[rows], rate_bit_per_s[rows])
        return part

    def _snr(self, whole_bit_per_s: FloatArray) -> FloatArray:
        return np.asarray(np.expm1(whole_bit_per_s * (math.log(2.0) / self.bandwidth_hz)))

    @property
    def _least_part(self) -> float:
        return min(1.0, RESOURCE_BLOCK_HZ / self.bandwidth_hz)

    def _narrow_parts(self, whole_bit_per_s: FloatArray, rate_bit_per_s: FloatArray) -> FloatArray:
        """Return uplink parts [n] of rates > 0 and below those of the whole band.

        With u = 1 / x the rate is B log2(1 + s u) / u, a convex and falling function of u.
        Newton's steps from the left of the solution, u = whole / rate, never pass it.
        """
        snr = self._snr(whole_bit_per_s)
        least = self._least_part
        block_bit_per_s = self.rates_bit_per_s(whole_bit_per_s, np.full(snr.size, least))
        # Clients with smaller rates take turns on a resource block.
        most_bit_per_s = np.maximum(rate_bit_per_s, block_bit_per_s)
        requested = most_bit_per_s * (math.log(2.0) / self.bandwidth_hz)
        inverse = whole_bit_per_s / most_bit_per_s
        for _ in range(_MOST_STEPS):
            reached = np.log1p(snr * inverse)
            derivative = (snr * inverse / (1.0 + snr * inverse) - reached) / inverse**2
            step = np.zeros(inverse.size)
            # With a very weak signal the part makes no difference: the derivative is 0.
            np.divide(requested - reached / inverse, derivative, out=step, where=derivative < 0.0)
            if not (step > inverse * 1e-15).any():
                break
            inverse += np.maximum(step, 0.0)
        if (step > inverse * _TOLERANCE).any():
            raise ArithmeticError(f"no part of a band was found within {_MOST_STEPS} Newton steps")
        fastest = requested / (math.log(2.0) * self.most_bit_per_s_per_hz)
        part = np.clip(np.maximum(1.0 / inverse, fastest), least, 1.0)
        turns = least * (rate_bit_per_s / block_bit_per_s)
        return np.where(rate_bit_per_s < block_bit_per_s, turns, part)
