"""Network of a wireless client: Wi-Fi, or the cellular network of `fleet.channel`.

The usage flag `unmetered` gives the network of a client at a moment: unmetered means Wi-Fi, metered
means cellular. `fleet.network` takes the flag from the usage records, or fixes it.
"""

from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import BoolArray, IntArray
from fleetsim.settings import Settings

AS_RECORDED: Final = -1
METERED: Final = 0
UNMETERED: Final = 1


class ByUsageSettings(Settings):
    """Network by the usage records: Wi-Fi while unmetered, cellular while metered.

    Clients without people (boards, and all clients if `fleet.usage` names none) are on Wi-Fi.
    """

    kind: Literal["by-usage"] = "by-usage"


class CellularSettings(Settings):
    """Every wireless client is on the cellular network, always."""

    kind: Literal["cellular"] = "cellular"


class WifiOnlySettings(Settings):
    """Every wireless client is on Wi-Fi, always."""

    kind: Literal["wifi"] = "wifi"


class MixedSettings(Settings):
    """Each wireless client is on one network for the whole run, whatever the usage records say."""

    kind: Literal["mixed"] = "mixed"
    cellular_fraction: Annotated[float, Field(ge=0.0, le=1.0)]
    """Probability that a client is on the cellular network; the others are on Wi-Fi."""


NetworkSettings = Annotated[
    ByUsageSettings | CellularSettings | WifiOnlySettings | MixedSettings,
    Field(discriminator="kind"),
]


def in_force(network: NetworkSettings | None, *, has_usage: bool) -> NetworkSettings:
    """Return the given settings; by default by usage where there is any, otherwise cellular."""
    if network is not None:
        return network
    return ByUsageSettings() if has_usage else CellularSettings()


def can_be_on(network: NetworkSettings, *, has_usage: bool) -> tuple[bool, bool]:
    """Return whether some wireless client can ever be on (Wi-Fi, the cellular network)."""
    match network:
        case ByUsageSettings():
            # Usage records are not read, and with them both are possible.
            return True, has_usage
        case MixedSettings(cellular_fraction=fraction):
            return fraction < 1.0, fraction > 0.0
    is_cellular = isinstance(network, CellularSettings)
    return not is_cellular, is_cellular


def forced_networks(network: NetworkSettings, *, seed: int, is_wired: BoolArray) -> IntArray:
    """Return `METERED`, `UNMETERED` or, for wired clients too, `AS_RECORDED` for every one [N]."""
    if isinstance(network, ByUsageSettings):
        return np.full(is_wired.size, AS_RECORDED)
    if isinstance(network, MixedSettings):
        draw = rng.stream(seed, "network/cellular").random(is_wired.size)
        is_metered = draw < network.cellular_fraction
    else:
        is_metered = np.full(is_wired.size, isinstance(network, CellularSettings))
    return np.where(is_wired, AS_RECORDED, np.where(is_metered, METERED, UNMETERED))
