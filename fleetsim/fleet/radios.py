"""Which radio a client transfers with at any moment, and what it draws: arrays over all radios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.direction import Direction
from fleetsim.fleet.profile import RadioProfile


@dataclass(frozen=True, slots=True, eq=False)
class Radios:
    """The R radios of a fleet; made by `table_of`."""

    name: IntArray
    """Radios of the same name have the same number [R]: a client's tail goes on from one to the
    next of them."""
    tail_w: FloatArray
    """Power of each tail [R]."""
    tail_s: FloatArray
    """Length of each tail [R]."""
    promotion_w: FloatArray
    """Power of each promotion [R]."""
    promotion_s: FloatArray
    """Length of each promotion, before the first bit, of a radio that was idle [R]."""
    busy_w: dict[Direction, FloatArray]
    """Base power while it is busy [R]."""
    j_per_bit: dict[Direction, FloatArray]
    """Energy per bit on top of that [R]."""
    unmetered: IntArray
    """Radio of each device profile on an unmetered network [P]."""
    metered: IntArray
    """Radio of each device profile on a metered network [P]."""

    def at(self, device: IntArray, is_unmetered: BoolArray) -> IntArray:
        """Radios that clients with these device profiles [n] use."""
        return np.where(is_unmetered, self.unmetered[device], self.metered[device])


def table_of(
    wifi: Sequence[RadioProfile | None], *, metered: RadioProfile, wired: RadioProfile
) -> Radios:
    """The radios of a fleet.

    Args:
        wifi: radio of each device profile on an unmetered network [P]; None: it has a cable.
        metered: radio of wireless devices on a metered network.
        wired: what a cable costs.
    """
    radios = [wired, metered, *(radio for radio in wifi if radio is not None)]
    names = sorted({radio.name for radio in radios})
    own = np.array([radio is not None for radio in wifi])
    return Radios(
        name=np.array([names.index(radio.name) for radio in radios]),
        tail_w=np.array([radio.tail_w for radio in radios]),
        tail_s=np.array([radio.tail_s for radio in radios]),
        promotion_w=np.array([radio.promotion_w for radio in radios]),
        promotion_s=np.array([radio.promotion_s for radio in radios]),
        busy_w={
            Direction.DOWN: np.array([radio.receive_w for radio in radios]),
            Direction.UP: np.array([radio.transmit_w for radio in radios]),
        },
        j_per_bit={
            Direction.DOWN: np.array([radio.receive_j_per_bit for radio in radios]),
            Direction.UP: np.array([radio.transmit_j_per_bit for radio in radios]),
        },
        unmetered=np.where(own, np.cumsum(own) + 1, 0),
        metered=np.where(own, 1, 0),
    )
