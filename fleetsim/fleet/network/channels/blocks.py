"""Settings of channels with fading blocks, and the cell that they describe.

Kinds of channel with blocks differ in the mean signal-to-noise ratio of a client. In some of them
it follows from the client's distance d and its shadow X [dB] ~ N(0, shadowing_sd_db^2), the same
both ways and for the whole run. Clients do not move. Defaults and sources: docs/models/channel.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channels.settings import CellularLinks, TransferSettings
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.fleet.network.wireless.fading import (
    BlockFading,
    Law,
    nakagami,
    no_fading,
    rayleigh,
    rician,
)
from fleetsim.fleet.network.wireless.rate import Modem, nr_64qam
from fleetsim.schema.key_conditions import CELLULAR, ActsIf, beside, by_key
from fleetsim.units import db_to_ratio

_MAX_BLOCKS: Final = 10_000_000
"""Most blocks of one transfer: its timeline has a segment for each in memory."""

BandwidthHz = Annotated[float, Field(ge=1e3, le=1e11)]
RatioDb = Annotated[float, Field(ge=-100.0, le=100.0)]
DistanceM = Annotated[float, Field(ge=1.0, le=1e5)]
Overhead = Annotated[float, Field(ge=0.0, le=0.9)]
MostPerHz = Annotated[float, Field(ge=1e-6, le=100.0)] | Literal["modem"] | None

_STEPS = ActsIf(
    lambda channel, _: channel.has_steps(True), "the rate is Shannon's", "set rate: nr-64qam"
)


class BlockSettings(TransferSettings):
    """Settings of the kinds of channel whose rates may change from block to block."""

    acts_if = by_key(
        bandwidth_hz=CELLULAR,
        up_bandwidth_hz=CELLULAR,
        fading=CELLULAR,
        rician_k=CELLULAR,
        nakagami_m=CELLULAR,
        block_s=(CELLULAR, beside("fading", "rayleigh", "rician", "nakagami")),
        rate=CELLULAR,
        overhead_fraction=(CELLULAR, _STEPS),
        up_overhead_fraction=(CELLULAR, _STEPS),
        snr_gap_db=CELLULAR,
        max_bit_per_s_per_hz=CELLULAR,
        outage_bit_per_s_per_hz=CELLULAR,
    )

    has_band: ClassVar[bool] = True

    bandwidth_hz: BandwidthHz = 5e6
    """Bandwidth in either direction: of each client, or of a cell, whose clients share it, if
    `fleet.shared_links` says so."""
    up_bandwidth_hz: BandwidthHz | None = None
    """Bandwidth of the uplink, if it differs; `bandwidth_hz` is then that of the downlink."""
    fading: Literal["rayleigh", "rician", "nakagami", "none"] = "rayleigh"
    """Distribution of the gain of each client, direction and block; none: always 1."""
    rician_k: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    """Power of the line of sight over that of the scattered waves (3 dB are 2); of `rician`."""
    nakagami_m: Annotated[float, Field(ge=0.5, le=1e3)] | None = None
    """Shape: 0.5 fades most, 1 is rayleigh, a large one hardly fades; of `nakagami`."""
    block_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 1.0
    """Length of the blocks in which the gain stays the same (coherence time)."""
    rate: Literal["nr-64qam", "shannon"] | None = None
    """Rate by the signal-to-noise ratio. nr-64qam: steps of modulation and coding of 5G NR, up to
    64QAM; shannon: the capacity of the band, which no modem reaches; null: nr-64qam if
    `max_bit_per_s_per_hz` is modem, otherwise shannon."""
    overhead_fraction: Overhead = 0.14
    """Part of the downlink that pilots and control take, with nr-64qam."""
    up_overhead_fraction: Overhead = 0.08
    """Part of the uplink that pilots and control take, with nr-64qam."""
    snr_gap_db: Annotated[float, Field(ge=0.0, le=30.0)] = 0.0
    """Additional signal that the modems need, compared with `rate`."""
    max_bit_per_s_per_hz: MostPerHz = None
    """Highest rate of the modems per hertz of bandwidth. modem: that of `metered_radio`, per hertz
    and in total; null: as fast as signal and `rate` allow."""
    outage_bit_per_s_per_hz: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """Rate per hertz below which a block carries nothing; its bits move in later blocks."""

    @model_validator(mode="after")
    def _blocks_fit(self) -> BlockSettings:
        blocks = self.give_up_s / self.block_s
        if self.fading != "none" and blocks > _MAX_BLOCKS:
            raise ValueError(
                f"give_up_s spans {blocks:g} blocks of block_s, over {_MAX_BLOCKS:g}; make the"
                " blocks longer or give up sooner"
            )
        return self

    @model_validator(mode="after")
    def _law_has_its_parameter(self) -> BlockSettings:
        for law, key, value in (
            ("rician", "rician_k", self.rician_k),
            ("nakagami", "nakagami_m", self.nakagami_m),
        ):
            if self.fading == law and value is None:
                raise ValueError(f"fading: {law} needs {key}; set it, or choose another law")
            if self.fading != law and value is not None:
                raise ValueError(f"{key} is of fading: {law}, not of {self.fading}; leave it out")
        return self

    @model_validator(mode="after")
    def _something_gets_through(self) -> BlockSettings:
        cap, outage = self.max_bit_per_s_per_hz, self.outage_bit_per_s_per_hz
        if isinstance(cap, float) and outage > cap:
            raise ValueError(
                f"nothing gets through: outage_bit_per_s_per_hz = {outage:g} is above "
                f"max_bit_per_s_per_hz = {cap:g}; lower it"
            )
        return self

    @abstractmethod
    def mean_snr(self, modem: Modem, distance_m: FloatArray | None, size: int) -> FloatArray:
        """Return every client's mean signal-to-noise ratio without shadowing [2, N]: down, up.

        Distances are those from the antenna [N]; None if the channel has none.
        """

    def build(self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None) -> CellularLinks:
        """Return links whose rates change from block to block; see `TransferSettings.build`."""
        modem = self._modem(radio)
        distance_m = self.distances_m(seed=seed, size=is_wired.size)
        mean_snr = self.mean_snr(modem, distance_m, is_wired.size)
        if distance_m is not None:
            mean_snr = self._shadowed(mean_snr, seed=seed)
            distance_m.flags.writeable = False
        snr = np.where(is_wired, np.nan, mean_snr)
        snr.flags.writeable = False
        cell = Cell(BlockFading(seed, self.block_s, self._law()), modem, distance_m, snr)
        if self.fading == "none":
            return CellularLinks(cell.steady_bit_per_s(), cell=cell)
        return CellularLinks(np.full((2, is_wired.size), np.nan), changing=cell, cell=cell)

    def _shadowed(self, mean_snr: FloatArray, *, seed: int) -> FloatArray:
        return mean_snr

    def _modem(self, radio: RadioProfile | None) -> Modem:
        up_hz = self.bandwidth_hz if self.up_bandwidth_hz is None else self.up_bandwidth_hz
        cap = self.max_bit_per_s_per_hz
        most_bit_per_s = (math.inf, math.inf)
        if cap == "modem":
            cap = None
            if radio is not None:
                cap = radio.max_bit_per_s_per_hz
                most_bit_per_s = (radio.max_down_bit_per_s, radio.max_up_bit_per_s)
        gap, most_per_hz = db_to_ratio(self.snr_gap_db), math.inf if cap is None else cap
        return Modem(
            bandwidth_hz=(self.bandwidth_hz, up_hz),
            gap=gap,
            cap_bit_per_s_per_hz=most_per_hz,
            most_bit_per_s=most_bit_per_s,
            outage_bit_per_s_per_hz=self.outage_bit_per_s_per_hz,
            modulations=(
                nr_64qam(self.overhead_fraction, most_per_hz, gap),
                nr_64qam(self.up_overhead_fraction, most_per_hz, gap),
            )
            if self.has_steps(radio is not None)
            else None,
        )

    def outage_fault(self, radio: RadioProfile) -> str | None:
        """Return what is wrong with the outage if the radio is slower; None if it is not."""
        modem = self._modem(radio)
        fastest = [modem.cap_bit_per_s_per_hz]
        fastest += [float(steps.bit_per_s_per_hz[-1]) for steps in modem.modulations or ()]
        if radio.network != "cellular" or self.outage_bit_per_s_per_hz <= min(fastest):
            return None
        return (
            f"is above {min(fastest):.5g}, the fastest rate of radio {radio.name!r} here, so that"
            " nothing gets through; lower it"
        )

    def has_steps(self, has_modem: bool) -> bool:
        """Return whether rates follow steps; `has_modem`: the cellular radio's modem is known."""
        if self.rate is not None:
            return self.rate == "nr-64qam"
        return has_modem and self.max_bit_per_s_per_hz == "modem"

    def _law(self) -> Law:
        if self.rician_k is not None:
            return partial(rician, k=self.rician_k)
        if self.nakagami_m is not None:
            return partial(nakagami, m=self.nakagami_m)
        return rayleigh if self.fading == "rayleigh" else no_fading


class PlacedSettings(BlockSettings):
    """Settings of the kinds of channel in which the distance from the antenna matters."""

    acts_if = by_key(path_loss_exponent_db=CELLULAR, shadowing_sd_db=CELLULAR)

    has_distances: ClassVar[bool] = True

    cell_radius_m: DistanceM = 500.0
    """Radius of the disk over which clients are placed uniformly."""
    min_distance_m: DistanceM = 10.0
    """Least distance of a client from the antenna; equal to the radius: all clients are there."""
    path_loss_exponent_db: Annotated[float, Field(ge=10.0, le=80.0)] = 37.6
    """Path loss added per factor of 10 in distance; 20 in free space."""
    shadowing_sd_db: Annotated[float, Field(ge=0.0, le=20.0)] = 0.0
    """Standard deviation of shadowing: one normal draw in dB per client, for the whole run and
    both ways."""

    @model_validator(mode="after")
    def _distances_ordered(self) -> PlacedSettings:
        low_m, high_m = self.min_distance_m, self.cell_radius_m
        if low_m > high_m:
            raise ValueError(
                f"min_distance_m = {low_m:g} is beyond cell_radius_m = {high_m:g}; lower it"
            )
        return self

    def distances_m(self, *, seed: int, size: int) -> FloatArray:
        """Draw every client's distance from the antenna [N], uniform in the area of a ring."""
        low, high = self.min_distance_m**2, self.cell_radius_m**2
        # The share of the ring's area within d is (d^2 - low) / (high - low).
        return np.asarray(np.sqrt(low + (high - low) * rng.stream(seed, "position").random(size)))

    def _shadowed(self, mean_snr: FloatArray, *, seed: int) -> FloatArray:
        if self.shadowing_sd_db == 0.0:
            return mean_snr
        normal = rng.stream(seed, "shadowing").standard_normal(mean_snr.shape[1])
        # The loss as a ratio; its median is 1.
        return np.asarray(mean_snr / 10.0 ** (self.shadowing_sd_db * normal / 10.0))
