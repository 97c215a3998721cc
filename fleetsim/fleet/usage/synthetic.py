"""Synthetic availability of a given mean, from the same for all users to severely different.

U users have a week each, in n = 7 * cycles_per_day cycles. In cycle k of length L a user is
available for the first share p of it and then away. With severity s

    L_uk       = week * l_uk / sum over k of l_uk,   log l_uk ~ N(0, (s SIGMA_LENGTH)^2)
    logit p_uk = b_u + s DIURNAL cos(2 pi (h_uk - PEAK_H) / 24) + s SIGMA_SHARE e_uk
    logit a_u  = c + s SIGMA_USER z_u

b_u makes the user's share of the week a_u, and c makes the mean of a_u the availability asked for.
docs/models/heterogeneity.md explains the letters.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray
from fleetsim.fleet.traces.usage.records import DAY_S, HOUR_S, trace_of_intervals
from fleetsim.fleet.traces.usage.trace import Trace, joined, rotated, without_repeats
from fleetsim.schema.ranges import Severity
from fleetsim.settings import Settings

SIGMA_USER = 2.0
SIGMA_LENGTH = 1.0
SIGMA_SHARE = 2.0
DIURNAL = 2.0
PEAK_H = 3.0

_NUM_DAYS = 7
_WEEK_S = _NUM_DAYS * DAY_S
_MOST_CYCLES_PER_DAY = 500_000
"""More make a trace of which some 800 MiB are in memory while it is drawn."""
_MOST_LOGIT = 60.0
_NUM_HALVINGS = 60
_CYCLES_AT_ONCE = 1 << 16
"""Cycles that are drawn at once, so that temporary arrays stay in the processor's cache."""


class SyntheticUsageSettings(Settings):
    """Synthetic users who are available (online, charging, unmetered) for a part of their time."""

    availability: Annotated[float, Field(ge=0.01, le=0.99)]
    """Mean share of the time for which users are available."""
    severity: Severity = 0.0
    """0: all users are available for the same share of every cycle, day and night. 1: users,
    durations and hours of the day differ severely. The mean is kept."""
    users: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Number of different users, assigned to the clients in shuffled passes. If it divides the
    number of clients, the mean is exact."""
    cycles_per_day: Annotated[int, Field(ge=1, le=288)] = 4
    """Times a day at which a user becomes available and then unavailable."""

    @model_validator(mode="after")
    def _fits(self) -> SyntheticUsageSettings:
        if self.users * self.cycles_per_day > _MOST_CYCLES_PER_DAY:
            raise ValueError(
                f"users = {self.users} with cycles_per_day = {self.cycles_per_day} are more than"
                f" {_MOST_CYCLES_PER_DAY} cycles a day; choose fewer users, which clients share"
            )
        return self


def make_usage(settings: SyntheticUsageSettings, *, seed: int) -> Trace:
    """Draw the trace of some settings.

    Users are drawn block by block, so that memory is little more than that of the trace.
    """
    shares = _user_shares(settings.availability, settings.severity, settings.users)
    phase, length, share = (
        rng.stream(seed, f"synthetic-usage/{what}") for what in ("phase", "length", "share")
    )
    phase_s = np.floor(phase.random(settings.users) * _WEEK_S).astype(np.int64)
    blocks = []
    num_cycles = _NUM_DAYS * settings.cycles_per_day
    at_once = _CYCLES_AT_ONCE // num_cycles
    for first in range(0, settings.users, at_once):
        users = slice(first, min(first + at_once, settings.users))
        size = (users.stop - first, num_cycles)
        blocks.append(
            _block(
                settings.severity,
                tuple(map(str, range(first, users.stop))),
                phase_s[users],
                shares[users],
                length.standard_normal(size),
                share.standard_normal(size),
            )
        )
    return blocks[0] if len(blocks) == 1 else joined(blocks)


def _block(
    severity: float,
    user_ids: tuple[str, ...],
    phase_s: IntArray,
    shares: FloatArray,
    length_normal: FloatArray,
    share_normal: FloatArray,
) -> Trace:
    """Return the trace of some users [U], with normal draws for their cycles [U, C].

    Each has a second of the week at which the record begins, and a share of the time available.
    """
    length = np.exp(severity * SIGMA_LENGTH * length_normal)
    length_s = _WEEK_S * length / length.sum(axis=1, keepdims=True)
    start_s = np.cumsum(length_s, axis=1) - length_s
    hour = (start_s + length_s / 2.0 + phase_s[:, np.newaxis]) % DAY_S / HOUR_S
    logit = DIURNAL * np.cos(2.0 * np.pi * (hour - PEAK_H) / 24.0)
    logit += SIGMA_SHARE * share_normal
    share = _with_mean(severity * logit, length_s / _WEEK_S, shares)
    begin_s = np.rint(start_s).astype(np.int64)
    end_s = np.rint(start_s + share * length_s).astype(np.int64)
    end_s = np.minimum(end_s, np.append(begin_s[:, 1:], np.full((len(end_s), 1), _WEEK_S), axis=1))
    user, cycle = np.nonzero(end_s > begin_s)
    trace = trace_of_intervals(
        "fleet.usage.synthetic",
        user_ids,
        np.full(len(user_ids), _WEEK_S),
        user,
        begin_s[user, cycle],
        end_s[user, cycle],
    )
    return without_repeats(rotated(trace, phase_s))


def _user_shares(availability: float, severity: float, num_users: int) -> FloatArray:
    """Return the share of the time for which each user is available [U]."""
    normal = NormalDist()
    middles = [normal.inv_cdf((k + 0.5) / num_users) for k in range(num_users)]
    logit = severity * SIGMA_USER * np.array([middles])
    weight = np.full((1, num_users), 1.0 / num_users)
    shares: FloatArray = _with_mean(logit, weight, np.array([availability]))[0]
    return shares


def _with_mean(logit: FloatArray, weight: FloatArray, mean: FloatArray) -> FloatArray:
    """Return shares [n, m] of these logits, shifted by row so that weighted means are `mean` [n].

    The shift is found by bisection, since the mean grows with it.
    """
    most = _MOST_LOGIT + np.abs(logit).max(axis=1, keepdims=True)
    low, high = -most, most
    shares, weighted = np.empty_like(logit), np.empty_like(logit)
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2.0
        _logistic(logit, middle, shares)
        np.multiply(weight, shares, out=weighted)
        is_below = weighted.sum(axis=1, keepdims=True) < mean[:, np.newaxis]
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    _logistic(logit, low, shares)
    return shares


def _logistic(logit: FloatArray, shift: FloatArray, shares: FloatArray) -> None:
    """Write the shares of shifted logits; in place, because allocation takes half of the time."""
    np.add(logit, shift, out=shares)
    np.negative(shares, out=shares)
    np.exp(shares, out=shares)
    np.add(1.0, shares, out=shares)
    np.divide(1.0, shares, out=shares)
