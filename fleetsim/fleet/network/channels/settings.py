"""Settings that every kind of cellular channel has, and what each kind provides."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fleetsim.contracts import BoolArray, FloatArray
from fleetsim.fleet.devices.profile import RadioProfile
from fleetsim.fleet.network.arrivals import SuccessSettings
from fleetsim.fleet.network.links import CellularLinks
from fleetsim.schema.distinct import Distinct
from fleetsim.schema.key_conditions import CELLULAR, UNMETERED, by_key
from fleetsim.settings import Settings

_SHARE_TOLERANCE = 1e-6


class TransferSettings(Settings):
    """Settings of every kind of channel."""

    acts_if = by_key(unmetered_radio=UNMETERED, metered_radio=CELLULAR)

    has_band: ClassVar[bool] = False
    """True if the channel has a band that the clients of a cell can share."""
    has_distances: ClassVar[bool] = False
    """True if clients have distances from an antenna."""

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
    """Probability that an upload succeeds, whatever the link does, by share of the clients."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> TransferSettings:
        total = sum(success.share for success in self.upload_success)
        if abs(total - 1.0) > _SHARE_TOLERANCE:
            raise ValueError(f"the shares of upload_success must sum to 1, they sum to {total:g}")
        return self

    @abstractmethod
    def build(
        self, *, seed: int, is_wired: BoolArray, radio: RadioProfile | None = None
    ) -> CellularLinks:
        """Return the cellular links of N clients.

        Client i has the same link whatever the size N of the fleet.

        Args:
            seed: the scenario's seed.
            is_wired: clients with a cable [N].
            radio: radio whose modem limits rates where the settings say so; None: no limit.

        Raises:
            ScenarioError: a file that the settings name is missing, or does not fit them.
            DataError: such a file is wrong.
        """

    def distances_m(self, *, seed: int, size: int) -> FloatArray | None:
        """Return every client's distance from the antenna [N]; None without distances."""
        return None

    def radio_in_use(self, radio: RadioProfile) -> RadioProfile:
        """Return a cellular radio as it works over this channel."""
        # The sender always has packets waiting: the radio never sleeps between them.
        return replace(radio, drx_inactivity_s=None)

    def tx_power_fault(self, radio: RadioProfile) -> str | None:
        """Return what is wrong with the transmit power for a radio; None if nothing is."""
        return None

    def outage_fault(self, radio: RadioProfile) -> str | None:
        """Return what is wrong with the least rate for a radio; None if nothing is."""
        return None
