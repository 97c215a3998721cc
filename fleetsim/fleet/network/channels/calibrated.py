"""Channel calibrated by the mean signal-to-noise ratio at one distance.

snr [dB] = 20 - 37.6 log10(d / 0.5 km) - X
"""

from typing import Literal

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.channels.blocks import DistanceM, PlacedSettings, RatioDb
from fleetsim.fleet.network.wireless.rate import Modem
from fleetsim.schema.key_conditions import CELLULAR, by_key
from fleetsim.units import db_to_ratio


class CalibratedSettings(PlacedSettings):
    """Cell around one antenna, given the mean ratio at one distance, in both directions."""

    acts_if = by_key(reference_snr_db=CELLULAR, reference_distance_m=CELLULAR)

    kind: Literal["calibrated"] = "calibrated"
    reference_snr_db: RatioDb = 20.0
    """Mean ratio at the receiver at the reference distance."""
    reference_distance_m: DistanceM = 500.0
    """Distance at which the mean ratio is the reference one."""

    def mean_snr(self, modem: Modem, distance_m: FloatArray | None, size: int) -> FloatArray:
        """Return ratios that fall with the distance [2, N], equal in both directions."""
        assert distance_m is not None
        farther = distance_m / self.reference_distance_m
        loss = farther ** (self.path_loss_exponent_db / 10.0)
        return np.stack([np.asarray(db_to_ratio(self.reference_snr_db) / loss)] * 2)
