"""Links of clients to the server: radios, channels, transport protocol and shared links.

A transfer uses the network that its client is on when the transfer starts, with its radio and
channel, until it ends.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.network.channel import Channel
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.fleet_radios import Radios
from fleetsim.fleet.network.sharing.flows import Flows, lay_out_flows
from fleetsim.fleet.network.sharing.shared_links import SharedLinks
from fleetsim.fleet.network.transfer import Demands, RateSteps
from fleetsim.fleet.network.transport import RateCaps, TransportSettings, capped_steps
from fleetsim.fleet.timeline import TimelineGroups, Timelines

_BLOCKS_AT_ONCE: Final = 64
"""Fading blocks that are drawn at once for clients on shared links."""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """Links of N clients; a pure function of time."""

    channel: Channel
    radios: Radios
    transport: TransportSettings
    shared: SharedLinks | None
    """Links that clients share; None where transfers do not slow each other."""

    def transfers(
        self,
        clients: IntArray,
        direction: Direction,
        start_s: FloatArray,
        bit: FloatArray,
        radio: IntArray,
        is_asleep: BoolArray,
        lost_at_s: FloatArray,
        more_round_trips: IntArray | None = None,
    ) -> TimelineGroups:
        """Lay out transfers: `Channel.transfers`, or `lay_out_flows` where they share links.

        Radios [n] that are asleep are promoted first, then the connection is set up, with
        `more_round_trips` further exchanges [n]. No other client transfers before the last of these
        ends. A client that is lost, at `lost_at_s` [n] or never (inf), frees its share.
        """
        shared, channel, radios = self.shared, self.channel, self.radios
        power = radios.power[direction].take(radio)
        promotion_s = np.where(is_asleep, radios.promotion_s[radio], 0.0)
        awake_s, on_wifi = start_s + promotion_s, radios.is_wifi[radio]
        caps = self.transport.rate_caps(radios.rtt_s[radio], more_round_trips)
        if shared is None:
            laid_out = channel.transfers(
                clients, direction, awake_s, bit, power, on_wifi=on_wifi, caps=caps
            )
        else:
            cells = shared.cells_of(clients, on_wifi)
            multiple = None if channel.multiple is None else channel.multiple[clients]
            demands = channel.demands(clients, direction, _BLOCKS_AT_ONCE, on_wifi=on_wifi)
            laid_out = lay_out_flows(
                Flows(awake_s, bit, awake_s + channel.give_up_s, lost_at_s, power),
                demands if caps is None else _capped_rates(demands, awake_s, caps),
                lambda demand_bit_per_s, channel_bit_per_s: shared.fair_bit_per_s(
                    cells, direction, demand_bit_per_s, channel_bit_per_s, multiple
                ),
            )
        if not promotion_s.any():
            return laid_out
        promotion_w = radios.promotion_w[radio]
        return [
            group
            for rows, timelines in laid_out
            for group in _with_promotions(rows, timelines, start_s[rows], promotion_w[rows])
        ]


def _capped_rates(demands: Demands, start_s: FloatArray, caps: RateCaps) -> Demands:
    """Demands of transfers that begin at `start_s` [n] under the limits of their transport."""

    def rates_from(rows: IntArray, t_s: FloatArray) -> RateSteps:
        edges_s, rates_bit_per_s, channel_bit_per_s = demands(rows, t_s)
        num = rates_bit_per_s.shape[1] + caps.cap_bit_per_s.shape[1]
        edges_s, rates_bit_per_s, step = capped_steps(
            edges_s, rates_bit_per_s, start_s[rows], caps.take(rows)
        )
        channel_bit_per_s = np.take_along_axis(channel_bit_per_s, step, axis=1)
        more = ((0, 0), (0, num - rates_bit_per_s.shape[1]))
        return RateSteps(
            np.pad(edges_s, more, mode="edge"),
            np.pad(rates_bit_per_s, more),
            np.pad(channel_bit_per_s, more),
        )

    return rates_from


def _with_promotions(
    rows: IntArray, timelines: Timelines, start_s: FloatArray, promotion_w: FloatArray
) -> TimelineGroups:
    """Return transfers with the promotions of their radios, during which nothing moves.

    An idle cellular radio is first promoted to the connected state, which takes time and power
    (Huang et al., "A close examination of performance and power characteristics of 4G LTE
    networks", MobiSys'12). A transfer that begins during the tail of the same radio needs none: its
    timeline begins at its start [k].
    """
    is_awake = timelines.start_s <= start_s
    groups = []
    if is_awake.any():
        groups.append((rows[is_awake], timelines.take(is_awake)))
    if not is_awake.all():
        asleep = ~is_awake
        later = timelines.take(asleep)
        whole = Timelines(
            edges_s=np.hstack([start_s[asleep, np.newaxis], later.edges_s]),
            progress=np.pad(later.progress, ((0, 0), (1, 0))),
            power_w=np.hstack([promotion_w[asleep, np.newaxis], later.power_w]),
            num_segments=later.num_segments + 1,
            is_complete=later.is_complete,
        )
        groups.append((rows[asleep], whole))
    return groups
