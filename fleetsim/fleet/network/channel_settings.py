"""What a scenario can say of the cellular network's channel.

Three kinds have blocks that fade and differ in where a client's mean signal-to-noise ratio comes
from: `fading` (a link budget), `normalised` (the same for everybody) and `calibrated` (so much at
one distance, less beyond). `constant` has no blocks, `trace` has measured rates. What the keys
mean: `cell`, `fading`, `rate`, `arrivals`, `net_links`; where the defaults come from:
docs/models/channel.md.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from fleetsim.fleet.network.arrivals import SuccessSettings, check_shares
from fleetsim.fleet.network.measured_links import NetShift
from fleetsim.fleet.network.radios.amplifier import (
    MAX_BASE_STATION_TX_POWER_DBM,
    MAX_CELLULAR_TX_POWER_DBM,
    MIN_TX_POWER_DBM,
)
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.effects import CELLULAR, UNMETERED, all_of, beside, by_key
from fleetsim.schema.ranges import RateBitPerS
from fleetsim.settings import Settings

_MAX_BLOCKS: Final = 10_000_000
"""Blocks of one transfer, which is laid out block by block in memory."""

BandwidthHz = Annotated[float, Field(ge=1e3, le=1e11)]
RatioDb = Annotated[float, Field(ge=-100.0, le=100.0)]
DistanceM = Annotated[float, Field(ge=1.0, le=1e5)]


MostPerHz = Annotated[float, Field(ge=1e-6, le=100.0)] | Literal["modem"] | None


class TransferSettings(Settings):
    """What every kind of channel has."""

    acts_if = by_key(
        unmetered_radio=UNMETERED,
        metered_radio=CELLULAR,
    )

    give_up_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 3600.0
    """A transfer that takes longer than this fails."""
    unmetered_radio: str = "wifi"
    """Radio that a client uses on an unmetered network: bundled name or path. Bits of a Wi-Fi radio
    go over `fleet.wifi`, those of a cellular one over this channel."""
    metered_radio: str = "lte"
    """Radio that a client uses on a metered network, a cellular one: bundled name or path."""
    upload_success: Annotated[
        tuple[SuccessSettings, ...],
        Distinct("probability", "name it once, with the sum of the shares"),
    ] = (SuccessSettings(probability=1.0),)
    """How often uploads succeed, whatever the link does, and which share of the clients has it."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> TransferSettings:
        check_shares(self.upload_success)
        return self


class ConstantSettings(TransferSettings):
    """The same rates for every wireless client, always."""

    acts_if = by_key(
        down_bit_per_s=CELLULAR,
        up_bit_per_s=CELLULAR,
    )

    kind: Literal["constant"] = "constant"
    down_bit_per_s: RateBitPerS
    """Rate from the server to a client."""
    up_bit_per_s: RateBitPerS
    """Rate from a client to the server."""


class BlockSettings(TransferSettings):
    """What the kinds with fading blocks have in common."""

    acts_if = by_key(
        bandwidth_hz=CELLULAR,
        up_bandwidth_hz=CELLULAR,
        fading=CELLULAR,
        rician_k=CELLULAR,
        nakagami_m=CELLULAR,
        block_s=all_of(CELLULAR, beside("fading", "rayleigh", "rician", "nakagami")),
        snr_gap_db=CELLULAR,
        max_bit_per_s_per_hz=CELLULAR,
        outage_bit_per_s_per_hz=CELLULAR,
    )

    bandwidth_hz: BandwidthHz = 5e6
    """Bandwidth in either direction: of each client, or of a cell, whose clients share it, if
    `fleet.shared_links` says so."""
    up_bandwidth_hz: BandwidthHz | None = None
    """Bandwidth on the way up, if that is another; `bandwidth_hz` is then that of the way down."""
    fading: Literal["rayleigh", "rician", "nakagami", "none"] = "rayleigh"
    """Law of the gain that each client, direction and block draws; none: always 1."""
    rician_k: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    """Power of the line of sight over that of the scattered waves (3 dB are 2); of `rician`."""
    nakagami_m: Annotated[float, Field(ge=0.5, le=1e3)] | None = None
    """Shape: 0.5 fades most, 1 is rayleigh, a large one hardly fades; of `nakagami`."""
    block_s: Annotated[float, Field(ge=1e-3, le=1e9)] = 1.0
    """Length of the blocks in which the gain stays the same (coherence time)."""
    snr_gap_db: Annotated[float, Field(ge=0.0, le=30.0)] = 0.0
    """How much more signal the modems need than Shannon's rate does."""
    max_bit_per_s_per_hz: MostPerHz = None
    """Fastest rate of the modems per hertz of bandwidth. modem: what `metered_radio` can, per hertz
    and in all; null: as fast as the signal allows (Shannon)."""
    outage_bit_per_s_per_hz: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """A block whose rate per hertz is below this carries nothing; its bits go in later blocks."""

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


class PlacedSettings(BlockSettings):
    """What the kinds have in common in which distance matters."""

    acts_if = by_key(
        path_loss_exponent_db=CELLULAR,
        shadowing_sd_db=CELLULAR,
    )

    cell_radius_m: DistanceM = 500.0
    """Clients stand uniformly over the disk of this radius."""
    min_distance_m: DistanceM = 10.0
    """Nobody stands closer to the antenna; equal to the radius: everybody stands there."""
    path_loss_exponent_db: Annotated[float, Field(ge=10.0, le=80.0)] = 37.6
    """Path loss added per factor of 10 in distance; 20 in free space."""
    shadowing_sd_db: Annotated[float, Field(ge=0.0, le=20.0)] = 0.0
    """Standard deviation of shadowing: one normal draw in dB per client, for good, both ways."""

    @model_validator(mode="after")
    def _distances_ordered(self) -> PlacedSettings:
        low_m, high_m = self.min_distance_m, self.cell_radius_m
        if low_m > high_m:
            raise ValueError(
                f"min_distance_m = {low_m:g} is beyond cell_radius_m = {high_m:g}; lower it"
            )
        return self


class FadingSettings(PlacedSettings):
    """A cell around one antenna, by a link budget."""

    acts_if = by_key(
        tx_power_dbm=CELLULAR,
        server_tx_power_dbm=CELLULAR,
        noise_dbm_per_hz=CELLULAR,
        noise_figure_db=CELLULAR,
        path_loss_db_at_1km=CELLULAR,
    )

    kind: Literal["fading"] = "fading"
    max_bit_per_s_per_hz: MostPerHz = "modem"
    """Fastest rate of the modems per hertz of bandwidth. modem: what `metered_radio` can, per hertz
    and in all; null: as fast as the signal allows (Shannon)."""
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
    """Noise that the receiver adds, client and server alike."""
    path_loss_db_at_1km: Annotated[float, Field(ge=70.0, le=250.0)] = 128.1
    """Path loss at 1 km; in free space 70 dB at 75 MHz, 99 dB at 2 GHz, 121 dB at 28 GHz."""


class NormalisedSettings(BlockSettings):
    """The same mean signal-to-noise ratio for every wireless client, in both directions."""

    acts_if = by_key(
        mean_snr_db=CELLULAR,
    )

    kind: Literal["normalised"] = "normalised"
    mean_snr_db: RatioDb = 20.0
    """Mean ratio at the receiver."""


class CalibratedSettings(PlacedSettings):
    """A cell around one antenna, by the mean ratio at one distance, in both directions."""

    acts_if = by_key(
        reference_snr_db=CELLULAR,
        reference_distance_m=CELLULAR,
    )

    kind: Literal["calibrated"] = "calibrated"
    reference_snr_db: RatioDb = 20.0
    """Mean ratio at the receiver at the reference distance."""
    reference_distance_m: DistanceM = 500.0
    """Distance at which the mean ratio is the reference one."""


class TraceSettings(TransferSettings):
    """Measured rates: every wireless client lives through one record of a network trace."""

    acts_if = by_key(
        shift=CELLULAR,
        rate_scale=CELLULAR,
        up_over_down=CELLULAR,
    )

    kind: Literal["trace"] = "trace"
    trace: str
    """Network trace: bundled name, or path of a folder or file."""
    shift: NetShift = "random"
    """random: each client begins its record anywhere in it. none: at its beginning."""
    rate_scale: Annotated[float, Field(ge=1e-9, le=1e9)] = 1.0
    """Factor on all rates, such as 0.5 for a plan of half the speed."""
    up_over_down: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    """Rate up over rate down, in place of the trace's own rates up; needed where it has none."""
