"""Radios of a fleet: which a client uses at a moment, what it draws, which channel it goes over.

A link is a radio and a channel together: bits of a Wi-Fi radio go over `fleet.wifi`, those of a
cellular radio over `fleet.channel`. Which of its two radios a client uses follows from its network
(`fleetsim.fleet.network.wifi_or_cellular`) at the moment when a transfer starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import (
    DeviceProfile,
    RadioProfile,
    load_radio,
    wifi_radio,
)
from fleetsim.fleet.network.channels.settings import TransferSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radios.power import RadioPower, power_of
from fleetsim.quoting import quoted


@dataclass(frozen=True, slots=True, eq=False)
class Radios:
    """The R radios of a fleet; made by `table_of`."""

    name: IntArray
    """Radios of the same name have the same number [R]: a client's tail goes on from one to the
    next of them."""
    tail_w: FloatArray
    """Power of each tail [R]."""
    tail_s: FloatArray
    """Length of each tail [R]."""
    promotion_w: FloatArray
    """Power of each promotion [R]."""
    promotion_s: FloatArray
    """Length of each promotion, before the first bit, of a radio that was idle [R]."""
    power: dict[Direction, RadioPower]
    """While it is busy [R]."""
    is_wifi: BoolArray
    """Whether bits go over Wi-Fi, not over the cell [R]; without meaning for cables."""
    rtt_s: FloatArray
    """Round-trip time to the server [R]."""
    unmetered: IntArray
    """Radio of each device profile on an unmetered network [P]."""
    metered: IntArray
    """Radio of each device profile on a metered network [P]."""

    def at(self, device: IntArray, is_unmetered: BoolArray) -> IntArray:
        """Radios that clients with these device profiles [n] use."""
        return np.where(is_unmetered, self.unmetered[device], self.metered[device])


def build_radios(
    channel: TransferSettings,
    profiles: Sequence[DeviceProfile],
    *,
    top_wifi_bit_per_s: float = 0.0,
    files: HardwareFiles | None = None,
) -> Radios:
    """The radios of a fleet of these devices.

    A channel with a link budget sets the transmit power of cellular radios, and so their watts.
    Over a channel of constant rates they sleep between packets
    (`fleetsim.fleet.network.radios.power`).

    Args:
        channel: the cellular network, which names the radios.
        profiles: the devices [P].
        top_wifi_bit_per_s: no client is faster on Wi-Fi.
        files: files that were read before; None: they are read now.

    Raises:
        DataError: there is no such radio, its file is wrong, or it does not suit its network.
    """
    return table_of(
        [
            None
            if profile.wired is not None
            else _in_use(
                unmetered_radio(
                    profile, channel.unmetered_radio, files=files, top_bit_per_s=top_wifi_bit_per_s
                ),
                channel,
            )
            for profile in profiles
        ],
        metered=cellular_radio(channel, files),
        wired=load_radio("wired", files=files),
    )


def cellular_radio(channel: TransferSettings, files: HardwareFiles | None = None) -> RadioProfile:
    """The radio of metered networks, at the transmit power of the channel.

    Raises:
        DataError: there is no such radio, its file is wrong, or it is no cellular radio.
    """
    return _in_use(metered_radio(channel.metered_radio, files=files), channel)


def metered_radio(
    name: str, *, beside: Path | None = None, files: HardwareFiles | None = None
) -> RadioProfile:
    """Radio of a wireless device on a metered network; arguments and errors as of `load_radio`.

    Raises:
        DataError: it is no cellular radio.
    """
    radio = load_radio(name, beside=beside, files=files)
    if radio.network != "cellular":
        raise DataError(
            f"radio {quoted(name)}: its network is {radio.network}, and metered networks are"
            " cellular; choose a cellular radio such as 'lte', or set fleet.network.kind = 'wifi'"
        )
    return radio


def unmetered_radio(
    profile: DeviceProfile,
    name: str,
    *,
    beside: Path | None = None,
    files: HardwareFiles | None = None,
    top_bit_per_s: float = 0.0,
) -> RadioProfile:
    """Radio of a wireless device on an unmetered network; arguments and errors as of `wifi_radio`.

    Raises:
        DataError: it is a cable.
    """
    radio = wifi_radio(profile, name, beside=beside, files=files, top_bit_per_s=top_bit_per_s)
    if radio.network == "wired":
        raise DataError(
            f"radio {quoted(name)}: is a cable, and device {quoted(profile.name)} is wireless;"
            " choose 'wifi', or a cellular radio such as 'lte'"
        )
    return radio


def _in_use(radio: RadioProfile, channel: TransferSettings) -> RadioProfile:
    """Return a radio as it works over a channel: its transmit power, sleep between packets."""
    return channel.radio_in_use(radio) if radio.network == "cellular" else radio


def table_of(
    wifi: Sequence[RadioProfile | None], *, metered: RadioProfile, wired: RadioProfile
) -> Radios:
    """The radios of a fleet.

    Args:
        wifi: radio of each device profile on an unmetered network [P]; None: it has a cable.
        metered: radio of wireless devices on a metered network, a cellular one.
        wired: what a cable costs.
    """
    radios = [wired, metered, *(radio for radio in wifi if radio is not None)]
    names = sorted({radio.name for radio in radios})
    own = np.array([radio is not None for radio in wifi])
    return Radios(
        name=np.array([names.index(radio.name) for radio in radios]),
        tail_w=np.array([radio.tail_w for radio in radios]),
        tail_s=np.array([radio.tail_s for radio in radios]),
        promotion_w=np.array([radio.promotion_w for radio in radios]),
        promotion_s=np.array([radio.promotion_s for radio in radios]),
        power={way: power_of(radios, way) for way in (Direction.DOWN, Direction.UP)},
        is_wifi=np.array([radio.network == "wifi" for radio in radios]),
        rtt_s=np.array([radio.rtt_s for radio in radios]),
        unmetered=np.where(own, np.cumsum(own) + 1, 0),
        metered=np.where(own, 1, 0),
    )
