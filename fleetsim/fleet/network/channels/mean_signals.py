"""Channels by what determines a client's mean signal-to-noise ratio.

- `fading`: a link budget. P is the transmit power, N0 the density of the noise, B the bandwidth, F
  the noise figure:

      snr     = P / (PL * N0 * B * F)
      PL [dB] = 128.1 + 37.6 log10(d / 1 km) + X

- `calibrated`: the ratio at one distance, snr [dB] = 20 - 37.6 log10(d / 0.5 km) - X.
- `normalised`: the same ratio for every client, at any distance.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channels.blocks import (
    BlockSettings,
    DistanceM,
    MostPerHz,
    PlacedSettings,
    RatioDb,
)
from fleetsim.fleet.network.radio_power import (
    MAX_BASE_STATION_TX_POWER_DBM,
    MAX_CELLULAR_TX_POWER_DBM,
    MIN_TX_POWER_DBM,
    with_tx_power,
)
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.units import db_to_ratio, dbm_to_w


class FadingSettings(PlacedSettings):
    """Cell around one antenna, with a link budget."""

    acts_if = by_key(
        tx_power_dbm=CELLULAR,
        server_tx_power_dbm=CELLULAR,
        noise_dbm_per_hz=CELLULAR,
        noise_figure_db=CELLULAR,
        path_loss_db_at_1km=CELLULAR,
    )

    kind: Literal["fading"] = "fading"
    max_bit_per_s_per_hz: MostPerHz = "modem"
    """Highest rate of the modems per hertz of bandwidth. modem: that of `metered_radio`, per hertz
    and in total; null: as fast as signal and `rate` allow."""
    tx_power_dbm: Annotated[float, Field(ge=MIN_TX_POWER_DBM, le=MAX_CELLULAR_TX_POWER_DBM)] = 23.0
    """Transmit power of a client, at most that of its radio: 23 dBm in power class 3, which phones
    have, 26 in class 2. Its amplifier draws more than it emits."""
    server_tx_power_dbm: Annotated[
        float, Field(ge=MIN_TX_POWER_DBM, le=MAX_BASE_STATION_TX_POWER_DBM)
    ] = 43.0
    """Transmit power of the server's antenna to one client."""
    noise_dbm_per_hz: Annotated[float, Field(ge=-190.0, le=-100.0)] = -174.0
    """Density of the thermal noise (-174 dBm/Hz is kT at 290 K)."""
    noise_figure_db: Annotated[float, Field(ge=0.0, le=30.0)] = 0.0
    """Noise that a receiver adds, at the client and at the server."""
    path_loss_db_at_1km: Annotated[float, Field(ge=70.0, le=250.0)] = 128.1
    """Path loss at 1 km; in free space 70 dB at 75 MHz, 99 dB at 2 GHz, 121 dB at 28 GHz."""

    def mean_snr(self, modem: Modem, distance_m: FloatArray | None, size: int) -> FloatArray:
        """Return the ratios of the link budget [2, N]."""
        assert distance_m is not None
        tx_w = [[dbm_to_w(self.server_tx_power_dbm)], [dbm_to_w(self.tx_power_dbm)]]
        noise_w_per_hz = dbm_to_w(self.noise_dbm_per_hz + self.noise_figure_db)
        noise_w = [[noise_w_per_hz * bandwidth_hz] for bandwidth_hz in modem.bandwidth_hz]
        return np.asarray(tx_w / (self.path_loss(distance_m) * noise_w))

    def path_loss(self, distance_m: FloatArray) -> FloatArray:
        """Return transmitted over received power at distances, without shadowing, shape kept."""
        distance_km = distance_m / 1000.0
        at_1km = db_to_ratio(self.path_loss_db_at_1km)
        return np.asarray(at_1km * distance_km ** (self.path_loss_exponent_db / 10.0))

    def radio_in_use(self, radio: RadioProfile) -> RadioProfile:
        """Return the radio at the transmit power of the link budget; it never sleeps."""
        return with_tx_power(super().radio_in_use(radio), self.tx_power_dbm)

    def tx_power_fault(self, radio: RadioProfile) -> str | None:
        """Return what is wrong if the radio cannot emit the transmit power; None if it can."""
        if radio.amplifier is None or radio.network != "cellular":
            return None
        most_dbm = radio.amplifier.max_dbm
        if self.tx_power_dbm <= most_dbm:
            return None
        return f"is more than radio {radio.name!r} can emit; must be at most {most_dbm:g} dBm"


class CalibratedSettings(PlacedSettings):
    """Cell around one antenna, given the mean ratio at one distance, in both directions."""

    acts_if = by_key(reference_snr_db=CELLULAR, reference_distance_m=CELLULAR)

    kind: Literal["calibrated"] = "calibrated"
    reference_snr_db: RatioDb = 20.0
    """Mean ratio at the receiver at the reference distance."""
    reference_distance_m: DistanceM = 500.0
    """Distance at which the mean ratio is the reference one."""

    def mean_snr(self, modem: Modem, distance_m: FloatArray | None, size: int) -> FloatArray:
        """Return ratios that fall with the distance [2, N], equal in both directions."""
        assert distance_m is not None
        farther = distance_m / self.reference_distance_m
        loss = farther ** (self.path_loss_exponent_db / 10.0)
        return np.stack([np.asarray(db_to_ratio(self.reference_snr_db) / loss)] * 2)


class NormalisedSettings(BlockSettings):
    """The same mean signal-to-noise ratio for every wireless client, in both directions."""

    acts_if = by_key(mean_snr_db=CELLULAR)

    kind: Literal["normalised"] = "normalised"
    mean_snr_db: RatioDb = 20.0
    """Mean ratio at the receiver."""

    def mean_snr(self, modem: Modem, distance_m: FloatArray | None, size: int) -> FloatArray:
        """Return the same ratio for all clients [2, N]."""
        return np.full((2, size), db_to_ratio(self.mean_snr_db))
