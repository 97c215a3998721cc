"""CPU credits against published tables, by hand, and second by second."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.credits import CreditProfile, Credits, credits_of

SMALL = CreditProfile(num_vcpus=1, per_hour=12, maximum=288, launch=30)


def rules_of(profile: CreditProfile = SMALL) -> Credits:
    rules = credits_of([profile])
    assert rules is not None
    return rules


def after(launch_s: float, earned_s: float, use: float, seconds: float) -> tuple[float, float]:
    """Balance of a t2.small, in seconds of its vCPU."""
    one = [np.array([value]) for value in (launch_s, earned_s, use, seconds)]
    left_s, earned = rules_of().after(*one)
    return float(left_s[0]), float(earned[0])


@pytest.mark.parametrize(
    ("launch_s", "earned_s", "use", "seconds", "left"),
    [
        # A day of idling earns 24 x 12 credits, which is the maximum of 288, a week no more; launch
        # credits come on top.
        (1800.0, 0.0, 0.0, 86_400.0, (1800.0, 288 * 60.0)),
        (1800.0, 0.0, 0.0, 7 * 86_400.0, (1800.0, 288 * 60.0)),
        # 600 s at full use: 600 s of launch credits are gone first, 0.2 x 600 s are earned
        (1800.0, 0.0, 1.0, 600.0, (1200.0, 120.0)),
        # 2000 s: none left after 1800, which earned 360; the last 200 cost 0.8 each
        (1800.0, 0.0, 1.0, 2000.0, (0.0, 360.0 - 160.0)),
        # 12 credits of 60 s in an idle hour
        (0.0, 0.0, 0.0, 3600.0, (0.0, 720.0)),
        # A load at the baseline keeps the balance.
        (0.0, 500.0, 0.2, 1e6, (0.0, 500.0)),
    ],
)
def test_balances_by_hand(launch_s, earned_s, use, seconds, left):
    assert after(launch_s, earned_s, use, seconds) == pytest.approx(left)


def test_an_instance_that_earns_all_it_can_use_never_runs_out() -> None:
    rules = rules_of(CreditProfile(num_vcpus=1, per_hour=60, maximum=1440, launch=0))

    assert rules.full_use_s(np.zeros(1), np.zeros(1)).tolist() == [np.inf]


balances = st.tuples(st.floats(0.0, 1800.0), st.floats(0.0, 288 * 60.0))
stretches = st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 4000)), min_size=1, max_size=6)


def second_by_second(launch: float, earned: float, use: float, seconds: int) -> tuple[float, float]:
    for _ in range(seconds):
        from_launch = min(launch, use)
        launch -= from_launch
        earned = min(max(earned + 0.2 - (use - from_launch), 0.0), 288 * 60.0)
    return launch, earned


@pytest.mark.slow
@given(balances, stretches)
def test_balances_stay_within_bounds_and_follow_the_bucket_second_by_second(
    balance: tuple[float, float], stretches: list[tuple[float, int]]
) -> None:
    launch_s, earned_s = balance
    slow = balance
    for use, seconds in stretches:
        launch_s, earned_s = after(launch_s, earned_s, use, float(seconds))
        slow = second_by_second(*slow, use, seconds)

        assert 0.0 <= launch_s <= 1800.0
        assert 0.0 <= earned_s <= 288 * 60.0
    # the slow bucket is at most a second off whenever launch credits end
    assert (launch_s, earned_s) == pytest.approx(slow, abs=2.0)


@given(balances, st.floats(0.0, 1.0))
def test_when_foretold_nothing_is_left_and_before_it_something(balance: tuple[float, float], share):
    held: list[FloatArray] = [np.array([value]) for value in balance]
    lasts_s = float(rules_of().full_use_s(*held)[0])

    assert after(*balance, use=1.0, seconds=lasts_s) == pytest.approx((0.0, 0.0), abs=1e-6)
    # what is left at full use lasts for the rest of the time
    left = [np.array([value]) for value in after(*balance, 1.0, share * lasts_s)]
    rest_s = float(rules_of().full_use_s(*left)[0])
    assert rest_s == pytest.approx((1 - share) * lasts_s, abs=1e-6)
