"""Where wireless clients stand around an antenna, and what mean signal-to-noise ratio they have.

They stand still at distance d. Three conventions (kinds of channel) say what ratio that gives:

    fading        snr = P / (PL * N0 * B * F)           a link budget, with
                  PL [dB] = 128.1 + 37.6 log10(d / 1 km) + X
    normalised    snr [dB] = 20                         whatever the distance
    calibrated    snr [dB] = 20 - 37.6 log10(d / 0.5 km) - X

X [dB] ~ N(0, shadowing_sd_db^2) is the shadow in which a client stands for good, the same both
ways. `fading` says how the gain of a block differs from its mean, `rate` what rate a ratio gives.
Sources, limits: docs/models/channel.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channel_settings import (
    BlockSettings,
    CalibratedSettings,
    FadingSettings,
    NormalisedSettings,
    PlacedSettings,
)
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.wireless.fading import (
    BlockFading,
    Law,
    Nakagami,
    NoFading,
    Rayleigh,
    Rician,
)
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.units import db_to_ratio, dbm_to_w

CellSettings = FadingSettings | NormalisedSettings | CalibratedSettings


@dataclass(frozen=True, slots=True)
class Cell:
    """The links of the wireless clients; a pure function of time, built by `build_cell`."""

    fading: BlockFading
    modem: Modem
    distance_m: FloatArray | None
    """Distance of every client from the antenna [N]; wired clients have one too, unused. None
    where no distance matters."""
    snr: FloatArray
    """Mean signal-to-noise ratio of every client [2, N]: row 0 down, row 1 up; NaN if wired."""

    @property
    def block_s(self) -> float:
        """Length of the blocks in which rates stay the same."""
        return self.fading.block_s

    def blocks_at(self, t_s: FloatArray) -> IntArray:
        """The blocks that cover moments, shape kept."""
        return self.fading.blocks_at(t_s)

    def rates_bit_per_s(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Rates of consecutive blocks of each client [n, num]."""
        band_bit_per_s = self.band_bit_per_s(clients, direction, first_block, num)
        return self.modem.limited(direction, band_bit_per_s)

    def band_bit_per_s(
        self, clients: IntArray, direction: Direction, first_block: IntArray, num: int
    ) -> FloatArray:
        """Rates of the whole band in consecutive blocks of each client [n, num]."""
        gains = self.fading.gains(clients, direction, first_block, num)
        snr = gains * self.snr[ROW[direction], clients][:, np.newaxis]
        return self.modem.band_bit_per_s(direction, snr)

    def steady_bit_per_s(self) -> FloatArray:
        """Rates of every client if the gain is always 1 [2, N]; NaN if wired."""
        return np.stack(
            [
                self.modem.rates_bit_per_s(way, self.snr[ROW[way]])
                for way in (Direction.DOWN, Direction.UP)
            ]
        )


def build_cell(
    settings: CellSettings, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None = None
) -> Cell:
    """Place N clients, cast their shadows and fix their mean ratios.

    Client i stands where it stands, in the same shadow, whatever the size N of the fleet.

    Args:
        settings: a kind of channel with blocks.
        seed: the scenario's seed.
        is_wired: who has a cable [N].
        radio: whose modem limits rates where the settings leave it to the modem; None: no limit.
    """
    size = is_wired.size
    modem = _modem(settings, radio)
    distance_m: FloatArray | None = None
    if isinstance(settings, NormalisedSettings):
        mean_snr = np.full((2, size), db_to_ratio(settings.mean_snr_db))
    else:
        distance_m = distances_m(settings, seed=seed, size=size)
        if isinstance(settings, FadingSettings):
            mean_snr = _link_budget(settings, modem, distance_m)
        else:
            mean_snr = np.stack([_calibrated(settings, distance_m)] * 2)
        if settings.shadowing_sd_db > 0.0:
            mean_snr /= _shadow(settings.shadowing_sd_db, seed=seed, size=size)
        distance_m.flags.writeable = False
    snr = np.where(is_wired, np.nan, mean_snr)
    snr.flags.writeable = False
    return Cell(BlockFading(seed, settings.block_s, _law(settings)), modem, distance_m, snr)


def _modem(settings: BlockSettings, radio: RadioProfile | None) -> Modem:
    up_hz = settings.bandwidth_hz if settings.up_bandwidth_hz is None else settings.up_bandwidth_hz
    cap = settings.max_bit_per_s_per_hz
    most_bit_per_s = (math.inf, math.inf)
    if cap == "modem":
        cap = None
        if radio is not None:
            cap = radio.max_bit_per_s_per_hz
            most_bit_per_s = (radio.max_down_bit_per_s, radio.max_up_bit_per_s)
    return Modem(
        bandwidth_hz=(settings.bandwidth_hz, up_hz),
        gap=db_to_ratio(settings.snr_gap_db),
        cap_bit_per_s_per_hz=math.inf if cap is None else cap,
        most_bit_per_s=most_bit_per_s,
        outage_bit_per_s_per_hz=settings.outage_bit_per_s_per_hz,
    )


def path_loss(settings: FadingSettings, distance_m: FloatArray) -> FloatArray:
    """Transmitted over received power at each distance, as a ratio; without shadowing."""
    distance_km = distance_m / 1000.0
    at_1km = db_to_ratio(settings.path_loss_db_at_1km)
    return np.asarray(at_1km * distance_km ** (settings.path_loss_exponent_db / 10.0))


def distances_m(settings: PlacedSettings, *, seed: int, size: int) -> FloatArray:
    """Distance of every client from the antenna [N], uniform in the area of a ring."""
    low, high = settings.min_distance_m**2, settings.cell_radius_m**2
    # The share of the ring's area within d is (d^2 - low) / (high - low).
    return np.asarray(np.sqrt(low + (high - low) * rng.stream(seed, "position").random(size)))


def _shadow(sd_db: float, *, seed: int, size: int) -> FloatArray:
    """Loss of each client's shadow as a ratio [N]; its median is 1."""
    shadow_db = sd_db * rng.stream(seed, "shadowing").standard_normal(size)
    return np.asarray(10.0 ** (shadow_db / 10.0))


def _link_budget(settings: FadingSettings, modem: Modem, distance_m: FloatArray) -> FloatArray:
    tx_w = [[dbm_to_w(settings.server_tx_power_dbm)], [dbm_to_w(settings.tx_power_dbm)]]
    noise_w_per_hz = dbm_to_w(settings.noise_dbm_per_hz + settings.noise_figure_db)
    noise_w = [[noise_w_per_hz * bandwidth_hz] for bandwidth_hz in modem.bandwidth_hz]
    return np.asarray(tx_w / (path_loss(settings, distance_m) * noise_w))


def _calibrated(settings: CalibratedSettings, distance_m: FloatArray) -> FloatArray:
    farther = distance_m / settings.reference_distance_m
    loss = farther ** (settings.path_loss_exponent_db / 10.0)
    return np.asarray(db_to_ratio(settings.reference_snr_db) / loss)


def _law(settings: BlockSettings) -> Law:
    if settings.rician_k is not None:
        return Rician(settings.rician_k)
    if settings.nakagami_m is not None:
        return Nakagami(settings.nakagami_m)
    return Rayleigh() if settings.fading == "rayleigh" else NoFading()
