"""Kinds of cellular channel: settings of each, and the links that they build.

A new kind is one module here, with a settings class that has a `kind` and builds its links, and its
name in `ChannelSettings`.

- `settings`: Settings that every kind of cellular channel has.
- `constant`: Channel of the same rates for every wireless client.
- `trace`: Channel of measured rates, from a network trace.
- `blocks`: Settings of channels with fading blocks, and the cell that they describe.
- `link_budget`: Channel with a link budget: the kind `fading`.
- `normalised`: Channel with the same mean signal-to-noise ratio for every client, at any distance.
- `calibrated`: Channel calibrated by the mean signal-to-noise ratio at one distance.
"""

from typing import Annotated

from pydantic import Field

from fleetsim.fleet.network.channels.calibrated import CalibratedSettings
from fleetsim.fleet.network.channels.constant import ConstantSettings
from fleetsim.fleet.network.channels.link_budget import FadingSettings
from fleetsim.fleet.network.channels.normalised import NormalisedSettings
from fleetsim.fleet.network.channels.trace import TraceSettings

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
