"""Wi-Fi of clients: an access point at home, shared airtime, and the line behind it.

Rates do not change over time, because rate adaptation and retransmissions average fading within
milliseconds. Equations, sources of the defaults, and comparison with measured rates:
docs/models/channel.md (Wi-Fi).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.schema.ranges import RateBitPerS
from fleetsim.settings import Settings
from fleetsim.units import db_to_ratio, dbm_to_w

_NOISE_DBM_PER_HZ = -174.0
"""Thermal noise kT at 290 K."""

_CLIENT_TX_POWER_DBM = 16.0
"""Transmit power of a client; no setting, because the device's file has its Wi-Fi watts."""


class ConstantWifiSettings(Settings):
    """The same rates for every client on Wi-Fi, always."""

    kind: Literal["constant"] = "constant"
    down_bit_per_s: RateBitPerS
    """Rate from the server to a client."""
    up_bit_per_s: RateBitPerS
    """Rate from a client to the server."""

    @property
    def top_bit_per_s(self) -> float:
        """Highest rate of any client, before `fleet.heterogeneity`."""
        return max(self.down_bit_per_s, self.up_bit_per_s)

    def rates_bit_per_s(self, *, seed: int, size: int) -> FloatArray:
        """Return rates of every client [2, N]: row 0 down, row 1 up."""
        rates = np.array([[self.down_bit_per_s], [self.up_bit_per_s]])
        return np.broadcast_to(rates, (2, size))


class IndoorWifiSettings(Settings):
    """Access point of each client's own, indoors."""

    kind: Literal["indoor"] = "indoor"
    radius_m: Annotated[float, Field(ge=1.0, le=100.0)] = 10.0
    """Radius of the disk around its access point over which a client is placed uniformly."""
    min_distance_m: Annotated[float, Field(ge=0.1, le=100.0)] = 1.0
    """Least distance from the access point; equal to the radius: all clients are there."""
    path_loss_db_at_1m: Annotated[float, Field(ge=30.0, le=100.0)] = 46.3
    """Path loss at 1 m: 46.3 dB at 5.18 GHz, 39.7 dB at 2.44 GHz."""
    path_loss_exponent_db: Annotated[float, Field(ge=10.0, le=60.0)] = 28.0
    """Path loss added per factor of 10 in distance."""
    shadowing_sd_db: Annotated[float, Field(ge=0.0, le=20.0)] = 8.0
    """Standard deviation of shadowing by walls and furniture: one normal draw in dB per client."""
    access_point_tx_power_dbm: Annotated[float, Field(ge=0.0, le=30.0)] = 16.0
    """Transmit power of an access point."""
    noise_figure_db: Annotated[float, Field(ge=0.0, le=30.0)] = 7.0
    """Noise that a receiver adds, at the client and at the access point."""
    bandwidth_hz: Annotated[float, Field(ge=1e6, le=1e9)] = 20e6
    """Width of the Wi-Fi channel."""
    snr_gap_db: Annotated[float, Field(ge=0.0, le=30.0)] = 3.0
    """Additional signal that the modems need, compared with Shannon's rate."""
    max_bit_per_s_per_hz: Annotated[float, Field(ge=1e-3, le=100.0)] = 3.61
    """Highest rate of the modems per hertz: 3.61 are 72.2 Mbit/s in 20 MHz, one spatial stream."""
    airtime_share: tuple[
        Annotated[float, Field(ge=1e-3, le=1.0)], Annotated[float, Field(ge=1e-3, le=1.0)]
    ] = (0.4, 0.8)
    """Part of the modems' rate that a client gets, drawn uniformly between these two."""
    line_down_bit_per_s: RateBitPerS | None = 100e6
    """Rate of the line behind an access point towards the client; null: no limit."""
    line_up_bit_per_s: RateBitPerS | None = 20e6
    """Rate of the line behind an access point towards the server; null: no limit."""

    @model_validator(mode="after")
    def _ordered(self) -> IndoorWifiSettings:
        low_m, high_m = self.min_distance_m, self.radius_m
        if low_m > high_m:
            raise ValueError(
                f"min_distance_m = {low_m:g} is beyond radius_m = {high_m:g}; lower it"
            )
        low, high = self.airtime_share
        if low > high:
            raise ValueError(f"airtime_share = [{low:g}, {high:g}] falls; give the smaller first")
        return self

    @property
    def top_bit_per_s(self) -> float:
        """Highest rate of any client, before `fleet.heterogeneity`."""
        return self.airtime_share[1] * self.max_bit_per_s_per_hz * self.bandwidth_hz

    def rates_bit_per_s(self, *, seed: int, size: int) -> FloatArray:
        """Draw rates of every client [2, N]: row 0 down, row 1 up."""
        low, high = self.min_distance_m**2, self.radius_m**2
        # The share of the ring's area within d is (d^2 - low) / (high - low).
        distance_m = np.sqrt(low + (high - low) * rng.stream(seed, "wifi/position").random(size))
        loss_db = self.path_loss_db_at_1m + self.path_loss_exponent_db * np.log10(distance_m)
        shadow = rng.stream(seed, "wifi/shadowing").standard_normal(size)
        loss_db = loss_db + self.shadowing_sd_db * shadow
        noise_w = dbm_to_w(_NOISE_DBM_PER_HZ + self.noise_figure_db) * self.bandwidth_hz
        tx_w = [[dbm_to_w(self.access_point_tx_power_dbm)], [dbm_to_w(_CLIENT_TX_POWER_DBM)]]
        snr = np.asarray(tx_w) * 10.0 ** (-loss_db / 10.0) / noise_w
        modem = Modem(
            bandwidth_hz=(self.bandwidth_hz, self.bandwidth_hz),
            gap=db_to_ratio(self.snr_gap_db),
            cap_bit_per_s_per_hz=self.max_bit_per_s_per_hz,
        )
        least, most = self.airtime_share
        share = least + (most - least) * rng.stream(seed, "wifi/airtime").random(size)
        rates = [modem.rates_bit_per_s(way, snr[ROW[way]]) for way in Direction]
        lines = (self.line_down_bit_per_s, self.line_up_bit_per_s)
        caps = [[np.inf if line is None else line] for line in lines]
        return np.minimum(share * np.stack(rates), caps)


WifiSettings = Annotated[IndoorWifiSettings | ConstantWifiSettings, Field(discriminator="kind")]
