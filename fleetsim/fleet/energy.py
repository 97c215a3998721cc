"""Components of energy, and radio tails: exact, because power is piecewise constant.

A radio that has just been busy stays in a high-power state for `tail_s` at `tail_w`. The tail is
charged whole when the transfer ends. A transfer that begins inside a tail that was already charged
pays only its power above the tail, so that no second is charged twice.
"""

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from fleetsim.contracts import BoolArray, FloatArray
from fleetsim.fleet.timeline import Timelines

Fraction = Annotated[float, Ge(0.0), Le(1.0)]


class Component(IntEnum):
    """Component that a joule was spent on; a column of a ledger [N, 5]."""

    COMPUTE = 0
    RECEIVE = 1
    TRANSMIT = 2
    TAIL = 3
    IDLE = 4
    """Being awake for the task: idle power from dispatch to the end of the task."""


def beyond_tails(timelines: Timelines, tail_w: FloatArray, paid_until_s: FloatArray) -> Timelines:
    """Return transfers [n] with only their power above tails charged up to `paid_until_s` [n]."""
    is_inside = (paid_until_s > timelines.start_s) & (tail_w > 0.0)
    if not is_inside.any():
        return timelines
    edges_s = timelines.edges_s
    is_cut = is_inside & (paid_until_s < timelines.end_s)
    is_cut &= ~(edges_s == paid_until_s[:, np.newaxis]).any(axis=1)
    if is_cut.any():
        timelines = _with_edge(timelines, is_cut, paid_until_s)
    paid = is_inside[:, np.newaxis] & (timelines.edges_s[:, 1:] <= paid_until_s[:, np.newaxis])
    above_w = np.maximum(timelines.power_w - tail_w[:, np.newaxis], 0.0)
    return replace(timelines, power_w=np.where(paid, above_w, timelines.power_w))


def _with_edge(timelines: Timelines, is_cut: BoolArray, at_s: FloatArray) -> Timelines:
    """Return timelines in which rows with `is_cut` [n] have a segment split at a time [n]."""
    rows = np.flatnonzero(is_cut)
    num_edges = timelines.edges_s.shape[1]
    # The new edge of the others is a further copy of their last one.
    place = np.where(is_cut, (timelines.edges_s < at_s[:, np.newaxis]).sum(axis=1), num_edges)
    column = np.arange(num_edges + 1)
    source = np.minimum(column - (column > place[:, np.newaxis]), num_edges - 1)
    edges_s = np.take_along_axis(timelines.edges_s, source, axis=1)
    progress = np.take_along_axis(timelines.progress, source, axis=1)
    edges_s[rows, place[rows]] = at_s[rows]
    progress[rows, place[rows]] = timelines.take(rows).progress_until(at_s[rows])
    column = column[:-1]
    source = np.minimum(column - (column >= place[:, np.newaxis]), num_edges - 2)
    num_segments = timelines.num_segments + is_cut
    power_w = np.take_along_axis(timelines.power_w, source, axis=1)
    power_w[column >= num_segments[:, np.newaxis]] = 0.0
    return Timelines(edges_s, progress, power_w, num_segments, timelines.is_complete)
