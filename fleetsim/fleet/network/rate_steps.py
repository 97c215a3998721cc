"""Rates of transfers from some moments on, in steps between edges."""

from collections.abc import Callable
from typing import NamedTuple

from fleetsim.contracts import FloatArray, IntArray


class RateSteps(NamedTuple):
    """Own rates of k flows from some moments on."""

    edges_s: FloatArray
    """Edges around each moment and after it [k, m+1]; the last is inf if the rate never changes
    again. A row with fewer than m rates repeats its last edge."""
    rates_bit_per_s: FloatArray
    """Rates that modem and transport allow between the edges [k, m]."""
    channel_bit_per_s: FloatArray
    """Rates that the channel would carry without them [k, m], over the whole band of a cell;
    Shannon's if it has steps of modulation and coding."""


OwnRates = Callable[[IntArray, FloatArray], RateSteps]
"""Function that returns own rates of flows (indices [k]) from moments [k] on; m is constant."""
