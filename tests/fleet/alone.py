"""Phases of one task by the functions for many, with the load as a list of steps."""

import math

import numpy as np

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.devices.compute import lay_out_computations
from fleetsim.fleet.energy import beyond_tails
from fleetsim.fleet.network.channel import Channel
from fleetsim.fleet.network.radio_power import power_of
from fleetsim.fleet.timeline import Timelines
from tests.fleet.one_timeline import Timeline, row_of


def side_by_side(*timelines: Timeline) -> Timelines:
    """Timelines as rows; the unused columns as `Timelines` wants them."""
    most = max(timeline.power_w.size for timeline in timelines)

    def filled(values: FloatArray, size: int, rest: float) -> FloatArray:
        return np.concatenate([values, np.full(size - values.size, rest)])

    return Timelines(
        np.stack([filled(t.edges_s, most + 1, t.end_s) for t in timelines]),
        np.stack([filled(t.progress, most + 1, float(t.progress[-1])) for t in timelines]),
        np.stack([filled(t.power_w, most, 0.0) for t in timelines]),
        np.array([t.power_w.size for t in timelines]),
        np.array([t.is_complete for t in timelines]),
    )


def compute_timeline(start_s, unloaded_s, train_above_idle_w, load_steps) -> Timeline:
    """One computation under (until_s, load) steps, which are read no further than needed."""
    steps = iter(load_steps)

    def load_after(rows: IntArray, t_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        until_s, load = next(steps)
        return np.array([load]), np.array([until_s])

    work_s, power_w = np.array([unloaded_s]), np.array([train_above_idle_w])
    return row_of(lay_out_computations(np.array([start_s]), work_s, power_w, load_after), 0)


def beyond_tail(timeline: Timeline, tail_w: float, paid_until_s: float) -> Timeline:
    """One transfer inside a tail that is paid for."""
    rows = side_by_side(timeline)
    return row_of(beyond_tails(rows, np.array([tail_w]), np.array([paid_until_s])), 0)


def next_load(usage, client: int, t_s: float) -> tuple[float, float]:
    """(until_s, load) of one client."""
    load, until_s = usage.load_after(np.array([client]), np.array([t_s]))
    assert not math.isnan(load[0])
    return float(until_s[0]), float(load[0])


def transfer(channel: Channel, client, direction, start_s, bit, radio) -> Timeline:
    """One cellular or wired transfer."""
    ((_, laid_out),) = channel.transfers(
        np.array([client]),
        direction,
        np.array([start_s]),
        np.array([bit]),
        power_of([radio], direction),
    )
    return row_of(laid_out, 0)
