"""Channel with the same mean signal-to-noise ratio for every client, at any distance."""

from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.channels.blocks import BlockSettings, RatioDb
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.units import db_to_ratio


class NormalisedSettings(BlockSettings):
    """The same mean signal-to-noise ratio for every wireless client, in both directions."""

    acts_if = by_key(mean_snr_db=CELLULAR)

    kind: Literal["normalised"] = "normalised"
    mean_snr_db: RatioDb = 20.0
    """Mean ratio at the receiver."""

    def mean_snr(self, modem: Modem, distance_m: FloatArray | None, size: int) -> FloatArray:
        """Return the same ratio for all clients [2, N]."""
        return np.full((2, size), db_to_ratio(self.mean_snr_db))
