"""Channel of the same rates for every wireless client."""

from typing import Literal

import numpy as np

from fleetsim.contracts import BoolArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.channels.settings import CellularLinks, TransferSettings
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.schema.ranges import RateBitPerS


class ConstantSettings(TransferSettings):
    """The same rates for every wireless client, always."""

    acts_if = by_key(down_bit_per_s=CELLULAR, up_bit_per_s=CELLULAR)

    kind: Literal["constant"] = "constant"
    down_bit_per_s: RateBitPerS
    """Rate from the server to a client."""
    up_bit_per_s: RateBitPerS
    """Rate from a client to the server."""

    def build(
        self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None = None
    ) -> CellularLinks:
        """Return links whose rates never change; see `TransferSettings.build`."""
        fixed_bit_per_s = np.empty((2, is_wired.size))
        fixed_bit_per_s[:] = [[self.down_bit_per_s], [self.up_bit_per_s]]
        return CellularLinks(fixed_bit_per_s)

    def radio_in_use(self, radio: RadioProfile) -> RadioProfile:
        """Return the radio as it is: it may sleep between packets, which arrive at this rate."""
        return radio
