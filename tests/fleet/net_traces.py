"""Small network traces and what they say, looked up millisecond by millisecond."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fleetsim.contracts import IntArray
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import ConstantSettings, TraceSettings
from fleetsim.fleet.network.measured_links import NetLinks
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.fleet.traces.ordered_rows import durations

Record = tuple[int, list[tuple[int, float, float]]]
"""Span in ms; samples (ms, down, up)."""


def net_trace(records: Sequence[Record], *, has_up: bool = True) -> NetTrace:
    samples = [sample for _, rows in records for sample in rows]
    return NetTrace(
        name="test",
        record_ids=tuple(f"record {index}" for index in range(len(records))),
        span_ms=np.array([span for span, _ in records], dtype=np.int64),
        offsets=np.cumsum([0, *(len(rows) for _, rows in records)]),
        times_ms=np.array([ms for ms, _, _ in samples], dtype=np.int64),
        down_bit_per_s=np.array([down for _, down, _ in samples], dtype=np.float64),
        up_bit_per_s=np.array([up for _, _, up in samples]) * 1.0 if has_up else None,
    )


def lasts_ms(trace: NetTrace) -> IntArray:
    """Duration of each sample."""
    return durations(trace.times_ms, trace.offsets, trace.span_ms)


def links(trace: NetTrace, *, size: int = 4, seed: int = 3, **settings: Any) -> NetLinks:
    given = {"trace": "test", "give_up_s": 60.0, **settings}
    return TraceSettings.model_validate(given).links_of(trace, seed=seed, size=size)


def channel_of(net: NetLinks, *, give_up_s: float = 60.0) -> Channel:
    """A channel whose clients are all wireless and follow these links."""
    size = net.record.size
    settings = ConstantSettings(down_bit_per_s=1.0, up_bit_per_s=1.0, give_up_s=give_up_s)
    plain = build_channel(settings, seed=1, size=size, wired_bit_per_s=np.full(size, np.nan))
    return replace(plain, changing=net, fixed_bit_per_s=np.full((2, size), np.nan))


def walked(trace, net, client, row, start_ms, bit, give_up_ms) -> tuple[float, float, bool]:
    """(seconds, bits moved, is complete) of a transfer, by the rate of every millisecond."""
    column = (trace.down_bit_per_s, trace.up_bit_per_s)[row]
    record = slice(*trace.offsets[int(net.record[client]) :][:2])
    rates = np.repeat(column[record], lasts_ms(trace)[record])
    moved_bit, begin_ms = 0.0, start_ms + int(net.shift_ms[client])
    for past_ms in range(give_up_ms):
        rate = float(rates[(begin_ms + past_ms) % rates.size])
        if moved_bit + rate / 1000.0 >= bit:
            return past_ms / 1000.0 + (bit - moved_bit) / rate, bit, True
        moved_bit += rate / 1000.0
    return give_up_ms / 1000.0, moved_bit, False


RATES = st.sampled_from([0.0, 0.0, 64e3, 1e6, 5e6, 3e7])


@st.composite
def records(draw: st.DrawFn) -> Record:
    times_ms = draw(st.lists(st.integers(1, 59), unique=True, max_size=6).map(sorted))
    span_ms = (times_ms[-1] if times_ms else 0) + draw(st.integers(1, 20))
    samples = [(ms, draw(RATES), draw(RATES)) for ms in (0, *times_ms)]
    if not any(down or up for _, down, up in samples):
        samples[0] = (0, 2e6, 1e6)
    return span_ms, samples


NET_TRACES = st.lists(records(), min_size=1, max_size=3).map(net_trace)
