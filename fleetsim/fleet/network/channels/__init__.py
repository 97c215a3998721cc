"""Kinds of cellular channel: settings of each, and the links that they build.

A new kind is a settings class that has a `kind` and builds its links, and its name in
`ChannelSettings`.

- `settings`: Settings that every kind of cellular channel has.
- `given_rates`: Channels whose rates are given.
- `blocks`: Settings of channels with fading blocks, and the cell that they describe.
- `mean_signals`: Channels by what determines a client's mean signal-to-noise ratio.
"""

from typing import Annotated

from pydantic import Field

from fleetsim.fleet.network.channels.given_rates import ConstantSettings, TraceSettings
from fleetsim.fleet.network.channels.mean_signals import (
    CalibratedSettings,
    FadingSettings,
    NormalisedSettings,
)

__all__ = [
    "CalibratedSettings",
    "ChannelSettings",
    "ConstantSettings",
    "FadingSettings",
    "NormalisedSettings",
    "TraceSettings",
]

ChannelSettings = Annotated[
    FadingSettings | NormalisedSettings | CalibratedSettings | ConstantSettings | TraceSettings,
    Field(discriminator="kind"),
]
