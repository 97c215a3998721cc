"""Max-min fair sharing by exact fractions and plain loops, for any links: slow, and independent."""

from fractions import Fraction
from typing import NamedTuple


def filled(most, links) -> list[Fraction]:
    """Progressive filling (Bertsekas & Gallager): all rise until something holds each.

    `most` is what each flow may get at most, `links` the capacity and the flows of every link.
    """
    rates = [Fraction(0)] * len(most)
    rising = {flow for flow, rate in enumerate(most) if rate > 0}
    while rising:
        by = min(most[flow] - rates[flow] for flow in rising)
        for capacity, flows in links:
            if flows & rising:
                left = capacity - sum(rates[flow] for flow in flows)
                by = min(by, left / len(flows & rising))
        for flow in rising:
            rates[flow] += by
        held = {flow for flow in rising if rates[flow] == most[flow]}
        for capacity, flows in links:
            if sum(rates[flow] for flow in flows) == capacity:
                held |= flows & rising
        rising -= held
    return rates


class Flow(NamedTuple):
    start: Fraction
    bits: Fraction
    demands: list[tuple[Fraction, Fraction]]
    """(until, rate) in sequence; the last holds for ever."""
    cell: int
    lost: Fraction | None
    give_up: Fraction

    def demand(self, t: Fraction) -> Fraction:
        return next((rate for until, rate in self.demands[:-1] if t < until), self.demands[-1][1])


def ends(flows, cells, server) -> list[tuple[Fraction, Fraction]]:
    """(when each has gone, what it had moved by then)."""
    moved = [Fraction(0)] * len(flows)
    gone: dict[int, Fraction] = {}
    t = min(flow.start for flow in flows)
    while True:
        for i, flow in enumerate(flows):
            last = flow.start + flow.give_up
            last = last if flow.lost is None else min(last, flow.lost)
            if i not in gone and flow.start <= t and (moved[i] == flow.bits or last <= t):
                gone[i] = t
        if len(gone) == len(flows):
            return [(gone[i], moved[i]) for i in range(len(flows))]
        live = [i for i, flow in enumerate(flows) if i not in gone and flow.start <= t]
        links = [
            (capacity, frozenset(k for k, i in enumerate(live) if flows[i].cell == cell))
            for cell, capacity in enumerate(cells)
        ]
        links.append((server, frozenset(range(len(live)))))
        rates = filled([flows[i].demand(t) for i in live], links)
        moments = [flow.start for flow in flows]
        for rate, i in zip(rates, live, strict=True):
            flow = flows[i]
            moments += [until for until, _ in flow.demands[:-1]] + [flow.start + flow.give_up]
            if flow.lost is not None:
                moments.append(flow.lost)
            if rate > 0:
                moments.append(t + (flow.bits - moved[i]) / rate)
        until = min(moment for moment in moments if moment > t)
        for rate, i in zip(rates, live, strict=True):
            moved[i] += rate * (until - t)
        t = until
