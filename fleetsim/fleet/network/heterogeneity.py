"""How far clients differ in speed and bandwidth: multipliers whose mean stays 1.

At severity s a client's rate is its device's (its link's) times

    m = exp(sigma Z - sigma^2 / 2),   Z ~ N(0, 1),   sigma = s * MOST_SIGMA,

whose arithmetic mean is 1 for every s: what the fleet could compute (carry) in all is kept while
the slow get slower and the fast get faster. The mean *time* of a piece of work grows, as
E[1/m] = exp(sigma^2): this is what stragglers are.

Clients are dealt cards. A deck has a card for each hundredth of the distribution, with the mean of
m in it, so that the mean of every deck is exactly 1 (but for rounding); client i gets card i of an
endless row of shuffled decks, whatever the size of the fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.network.channel import Channel
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radios.power import RadioPower
from fleetsim.fleet.network.sharing.flows import OwnRates, RateSteps
from fleetsim.fleet.network.transport import RateCaps
from fleetsim.fleet.timeline import Timelines
from fleetsim.schema.ranges import Severity
from fleetsim.settings import Settings

MOST_SIGMA = 1.0
"""Spread of the logarithm at severity 1: the fastest tenth is 13 times the slowest tenth."""
DECK_SIZE = 100


class HeterogeneitySettings(Settings):
    """How far clients differ beyond their devices and places, from none (0) to severe (1)."""

    speed: Severity = 0.0
    """Spread of the clients' computing rates; their arithmetic mean is kept."""
    bandwidth: Severity = 0.0
    """Spread of the clients' rates on their links, both ways; their arithmetic mean is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Heterogeneity:
    """The multipliers of N clients; built by `build_heterogeneity`."""

    speed: FloatArray
    """Computing rate over that of the device [N]."""
    bandwidth: FloatArray | None
    """Rate over that of the link, both ways [N]; None: 1 for everybody."""

    def transfers(
        self,
        channel: Channel,
        clients: IntArray,
        direction: Direction,
        start_s: FloatArray,
        bit: FloatArray,
        power: RadioPower,
        *,
        on_wifi: BoolArray | None = None,
        caps: RateCaps | None = None,
    ) -> list[tuple[IntArray, Timelines]]:
        """`channel.transfers` at the clients' multiples of its rates; arguments as there."""
        if self.bandwidth is None:
            return channel.transfers(
                clients, direction, start_s, bit, power, on_wifi=on_wifi, caps=caps
            )
        # At m times the rates, b bits take as long as b / m bits do at the rates, and a limit of c
        # bit/s is one of c / m.
        multiple = self.bandwidth[clients]
        if caps is not None:
            caps = RateCaps(caps.offsets_s, caps.cap_bit_per_s / multiple[:, np.newaxis])
        laid_out = channel.transfers(
            clients,
            direction,
            start_s,
            bit / multiple,
            power.at_multiples(multiple),
            on_wifi=on_wifi,
            caps=caps,
        )
        return [
            (rows, _multiplied(timelines, multiple[rows], bit[rows]))
            for rows, timelines in laid_out
        ]

    def own_rates(
        self,
        channel: Channel,
        clients: IntArray,
        direction: Direction,
        num_blocks: int,
        *,
        on_wifi: BoolArray | None = None,
    ) -> OwnRates:
        """`channel.own_rates` at the clients' multiples; arguments as there."""
        rates_from = channel.own_rates(clients, direction, num_blocks, on_wifi=on_wifi)
        if self.bandwidth is None:
            return rates_from
        multiple = self.bandwidth[clients]

        def multiplied(rows: IntArray, t_s: FloatArray) -> RateSteps:
            edges_s, *rates_bit_per_s = rates_from(rows, t_s)
            factor = multiple[rows, np.newaxis]
            return RateSteps(edges_s, *(rate * factor for rate in rates_bit_per_s))

        return multiplied


def build_heterogeneity(settings: HeterogeneitySettings, *, seed: int, size: int) -> Heterogeneity:
    """Deal the multipliers of a fleet."""
    bandwidth = None
    if settings.bandwidth > 0.0:
        bandwidth = multipliers(settings.bandwidth, "heterogeneity/bandwidth", seed=seed, size=size)
    speed = multipliers(settings.speed, "heterogeneity/speed", seed=seed, size=size)
    return Heterogeneity(speed, bandwidth)


def multipliers(severity: float, purpose: str, *, seed: int, size: int) -> FloatArray:
    """Multipliers of `size` clients; each depends on (seed, purpose, client) and the severity.

    Raises:
        ValueError: the severity is not in [0, 1].

    >>> dealt = multipliers(1.0, "doc", seed=1, size=200)
    >>> round(float(dealt.mean()), 12), round(float(dealt.max() / dealt.min()))
    (1.0, 210)
    """
    if not 0.0 <= severity <= 1.0:
        raise ValueError(f"severity must be in [0, 1], got {severity}")
    if severity == 0.0:
        return np.broadcast_to(np.float64(1.0), (size,))
    num_decks = -(-size // DECK_SIZE)
    order = rng.stream(seed, purpose).random((num_decks, DECK_SIZE)).argsort(axis=1)
    dealt: FloatArray = deck(severity * MOST_SIGMA)[order].ravel()[:size]
    dealt.flags.writeable = False
    return dealt


def deck(sigma: float) -> FloatArray:
    """Mean of exp(sigma Z - sigma^2 / 2) in each hundredth of its distribution, ascending [100].

    The mean of what lies between the quantiles of z_0 and z_1 is 100 (Phi(z_1 - sigma) - Phi(z_0 -
    sigma)).
    """
    normal = NormalDist()
    inner = [normal.inv_cdf(k / DECK_SIZE) for k in range(1, DECK_SIZE)]
    below = [0.0, *(normal.cdf(z - sigma) for z in inner), 1.0]
    return np.diff(below) * DECK_SIZE


def _multiplied(timelines: Timelines, multiple: FloatArray, bit: FloatArray) -> Timelines:
    """Transfers of `bit` / `multiple` bits as those of `bit` bits [n]."""
    last = timelines.progress[:, -1:]
    is_done = (timelines.progress == last) & timelines.is_complete[:, np.newaxis]
    # What is through is through to the last bit, whatever the rounding.
    progress = np.where(is_done, bit[:, np.newaxis], timelines.progress * multiple[:, np.newaxis])
    return Timelines(
        timelines.edges_s,
        progress,
        timelines.power_w,
        timelines.num_segments,
        timelines.is_complete,
    )
