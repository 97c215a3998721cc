"""Kinds of channel that nothing but their own settings class knows."""

from typing import Literal

import numpy as np

from fleetsim.fleet.devices.profile import load_device, load_radio
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels.settings import TransferSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.fleet_radios import build_radios
from fleetsim.fleet.network.links import CellularLinks


class RisingSettings(TransferSettings):
    """Rates that rise with the client's number."""

    kind: Literal["rising"] = "rising"

    def build(self, *, seed, is_wired, radio=None):
        rates_bit_per_s = 1e6 * (1.0 + np.arange(is_wired.size))
        return CellularLinks(np.stack([rates_bit_per_s, rates_bit_per_s / 2.0]))


def test_a_kind_of_channel_needs_no_more_than_its_settings_class():
    settings, wired = RisingSettings(), np.array([np.nan, np.nan, 5e7])
    channel = build_channel(settings, seed=1, size=3, wired_bit_per_s=wired)
    radios = build_radios(settings, [load_device("pixel-6")])

    assert channel.rate_at(1, Direction.DOWN, 7.0) == 2e6
    assert channel.rate_at(1, Direction.UP, 7.0) == 1e6
    assert channel.rate_at(2, Direction.UP, 7.0) == 5e7
    assert radios.tail_s[radios.metered[0]] == load_radio("lte").tail_s
