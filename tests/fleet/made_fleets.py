"""Fleets of some settings, written as a scenario has them."""

from typing import Any

import numpy as np

from fleetsim.fleet.population import Fleet, build_fleet
from fleetsim.fleet.settings import FleetSettings


def fleet_of(
    devices: dict[str, float], *, size: int, seed: int = 1, samples: int = 100, **settings: Any
) -> Fleet:
    """A fleet whose clients all have so many samples."""
    data = {"size": size, "devices": devices, **settings}
    num_samples = np.full(size, samples, dtype=np.int64)
    return build_fleet(FleetSettings.model_validate(data), seed=seed, num_samples=num_samples)
