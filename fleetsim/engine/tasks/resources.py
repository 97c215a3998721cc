"""Resources that a client reports about itself."""

import numpy as np

from fleetsim.contracts import ModelCost, Resources
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.population import Fleet


def resources_of(
    fleet: Fleet, client: int, now_s: float, *, level_j: float, cost: ModelCost, batch_size: int
) -> Resources:
    """Return what a client with this battery level (NaN on mains) reports at a moment."""
    state = fleet.usage.state_at_one(client, now_s)
    epoch_s = fleet.epoch_s(client, cost, batch_size)
    capacity_j = float(fleet.batteries.capacity_j[client])
    return Resources(
        flop_per_s=fleet.conv_flop_per_s(client),
        ram_byte=fleet.profile(client).ram_byte,
        load_fraction=state.load,
        is_charging=state.charging,
        is_unmetered=state.unmetered,
        battery_fraction=None if np.isnan(level_j) else level_j / capacity_j,
        samples_per_s=(1.0 - state.load) * float(fleet.num_samples[client]) / epoch_s,
        down_bit_per_s=fleet.rate_at(client, Direction.DOWN, now_s),
        up_bit_per_s=fleet.rate_at(client, Direction.UP, now_s),
        free_ram_byte=None if fleet.memory is None else float(fleet.memory.free_byte[client]),
    )
