"""Synthetic availability: the mean is kept, and the spread grows with the severity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.fleet.traces.usage.trace import STATES, Trace
from fleetsim.fleet.usage.synthetic import SyntheticUsageSettings, make_usage
from fleetsim.fleet.usage.usage import build_usage

WEEK_S = 7 * 86_400
SEVERITIES = [0.0, 0.25, 0.5, 0.75, 1.0]


def made(severity: float, availability: float = 0.4, users: int = 200, seed: int = 1) -> Trace:
    chosen = SyntheticUsageSettings(availability=availability, severity=severity, users=users)
    return make_usage(chosen, seed=seed)


def shares(trace: Trace) -> np.ndarray:
    """Share of the week for which each user is available."""
    return np.add.reduceat(trace.lasts_s * trace.online, trace.offsets[:-1]) / WEEK_S


@settings(max_examples=30)
@given(
    severity=st.floats(0.0, 1.0),
    availability=st.floats(0.01, 0.99),
    users=st.integers(1, 60),
    seed=st.integers(0, 9),
)
def test_the_mean_is_kept_at_every_severity(severity, availability, users, seed):
    mean = shares(made(severity, availability, users, seed)).mean()

    # 28 cycles a week, each edge rounded by at most half a second.
    assert mean == pytest.approx(availability, abs=28 / WEEK_S)


def test_users_and_sojourns_differ_more_and_more():
    traces = [made(severity) for severity in SEVERITIES]

    assert (np.diff([shares(trace).std() for trace in traces]) > 0.02).all()
    assert (np.diff([trace.lasts_s[trace.online].std() for trace in traces]) > 0).all()


def test_without_severity_everybody_has_the_same_share_of_every_cycle():
    trace = made(0.0, availability=0.25)
    inner = trace.lasts_s[trace.online]

    assert shares(trace) == pytest.approx(np.full(200, 0.25), abs=1e-4)
    # Six hours a cycle, a quarter of it; the seam of the week may cut one in two.
    assert np.median(inner) == 5400
    assert np.quantile(inner, 0.03) >= 5399


def test_nights_are_fuller_than_days_where_it_is_severe_and_not_where_it_is_not():
    users, everybody, swings = np.arange(1000), np.ones(1000, dtype=bool), []
    for severity in (0.0, 1.0):
        trace = made(severity, users=users.size)
        usage = build_usage(trace, seed=1, has_people=everybody, shift="none")
        at_s = 3600.0 * np.add.outer([3, 15], 24 * np.arange(7))
        night, day = ([usage.state_at(users, t_s).online.mean() for t_s in row] for row in at_s)
        swings.append(np.mean(night) - np.mean(day))

    # Without severity, 7,000 answers at each hour: standard error of the difference 0.008.
    assert abs(swings[0]) < 0.03
    assert swings[1] > 0.15


def test_the_spread_of_phones_in_the_field_is_a_severity_of_two_thirds():
    """FLHetBench's 710 phones: mean .095, median .055, 90 % .25 of the time available."""
    share = shares(made(0.68, availability=0.095, users=710))

    assert share.mean() == pytest.approx(0.095, rel=0.01)
    assert np.median(share) == pytest.approx(0.055, rel=0.15)
    assert np.quantile(share, 0.9) == pytest.approx(0.25, rel=0.15)


def test_users_that_are_drawn_in_blocks_are_those_drawn_together(monkeypatch):
    settings = SyntheticUsageSettings(availability=0.3, severity=0.7, users=23, cycles_per_day=5)
    together = make_usage(settings, seed=3)
    monkeypatch.setattr("fleetsim.fleet.usage.synthetic._CYCLES_AT_ONCE", 4 * 7 * 5)
    in_blocks = make_usage(settings, seed=3)

    for name in ("user_ids", "offsets", "times_s", "span_s", *STATES):
        assert np.array_equal(getattr(in_blocks, name), getattr(together, name))


def test_more_cycles_than_memory_holds_are_refused():
    most = {"availability": 0.5, "cycles_per_day": 288, "users": 100_000}
    with pytest.raises(ValidationError, match="cycles a day; choose fewer users"):
        SyntheticUsageSettings.model_validate(most)
