"""Radios of a fleet, by device and network.

A link is a radio and a channel together: a Wi-Fi radio uses `fleet.wifi`, a cellular radio
`fleet.channel`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.errors import DataError
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.profile import DeviceProfile, RadioProfile, load_radio, wifi_radio
from fleetsim.fleet.network.channels.settings import TransferSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower, power_of
from fleetsim.quoting import quoted

_WIRED = "wired"


@dataclass(frozen=True, slots=True, eq=False)
class Radios:
    """R radios of a fleet; built by `build_radios`. All arrays are [R] but the last two."""

    name: IntArray
    """Number of each radio's name: a tail continues from one radio to the next of that name."""
    tail_w: FloatArray
    tail_s: FloatArray
    promotion_w: FloatArray
    """Power of the promotion of an idle radio, before the first bit."""
    promotion_s: FloatArray
    power: dict[Direction, RadioPower]
    """Power while busy, by direction."""
    is_wifi: BoolArray
    """True if the radio uses Wi-Fi, not the cell; unused for cables."""
    rtt_s: FloatArray
    unmetered: IntArray
    """Radio of each device profile on an unmetered network [P]."""
    metered: IntArray
    """Radio of each device profile on a metered network [P]."""


def build_radios(
    channel: TransferSettings,
    profiles: Sequence[DeviceProfile],
    *,
    top_wifi_bit_per_s: float = 0.0,
    files: HardwareFiles | None = None,
) -> Radios:
    """Build the radios of a fleet of these devices.

    The channel determines the transmit power of cellular radios and their sleep between packets
    (`TransferSettings.radio_in_use`); no client on Wi-Fi is faster than `top_wifi_bit_per_s`.
    """
    is_wireless = np.array([profile.wired_bit_per_s is None for profile in profiles])
    radios = [load_radio(_WIRED, files=files), cellular_radio(channel, files)]
    for profile in profiles:
        if profile.wired_bit_per_s is None:
            radio = unmetered_radio(
                profile, channel.unmetered_radio, files=files, top_bit_per_s=top_wifi_bit_per_s
            )
            radios.append(_in_use(radio, channel))
    names = sorted({radio.name for radio in radios})
    return Radios(
        name=np.array([names.index(radio.name) for radio in radios]),
        **{
            key: np.array([getattr(radio, key) for radio in radios])
            for key in ("tail_w", "tail_s", "promotion_w", "promotion_s", "rtt_s")
        },
        power={way: power_of(radios, way) for way in Direction},
        is_wifi=np.array([radio.network == "wifi" for radio in radios]),
        unmetered=np.where(is_wireless, np.cumsum(is_wireless) + 1, 0),
        metered=np.where(is_wireless, 1, 0),
    )


def radios_in_use(
    channel: TransferSettings, *, has_wired: bool, has_unmetered: bool, has_metered: bool
) -> list[str]:
    """Return the names of radios over which bits can go, as the settings spell them.

    The flags say whether any client has a cable, and whether any wireless client is ever on an
    unmetered and on a metered network.
    """
    named = (
        (_WIRED, has_wired),
        (channel.unmetered_radio, has_unmetered),
        (channel.metered_radio, has_metered),
    )
    return list(dict.fromkeys(name for name, is_used in named if is_used))


def cellular_radio(channel: TransferSettings, files: HardwareFiles | None = None) -> RadioProfile:
    """Return the radio of metered networks, as the channel uses it."""
    return _in_use(metered_radio(channel.metered_radio, files=files), channel)


def metered_radio(name: str, *, files: HardwareFiles | None = None) -> RadioProfile:
    """Return the radio of a metered network; arguments as in `load_radio`."""
    radio = load_radio(name, files=files)
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
    files: HardwareFiles | None = None,
    top_bit_per_s: float = 0.0,
) -> RadioProfile:
    """Return a device's radio of unmetered networks; arguments as in `wifi_radio`."""
    radio = wifi_radio(profile, name, files=files, top_bit_per_s=top_bit_per_s)
    if radio.network == "wired":
        raise DataError(
            f"radio {quoted(name)}: is a cable, and device {quoted(profile.name)} is wireless;"
            " choose 'wifi', or a cellular radio such as 'lte'"
        )
    return radio


def _in_use(radio: RadioProfile, channel: TransferSettings) -> RadioProfile:
    """Return a radio as it works over a channel: its transmit power, sleep between packets."""
    return channel.radio_in_use(radio) if radio.network == "cellular" else radio
